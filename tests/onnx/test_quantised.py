"""8-bit networks in onnxruntime: what its quantiser writes is read, and it runs what is written here with integers."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

import symjax_nnvm as nn
from lowering import compile
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import OnnxError
from tests.onnx.runtime import run
from tests.onnx.test_from_onnx import model_of, node
from tests.onnx.test_onnx_meaning import ours

SHAPE = (2, 3, 10, 10)


def network() -> sym.Symbol:
    def convolution(x: sym.Symbol, name: str, groups: int = 1) -> sym.Symbol:
        return sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=8, num_group=groups, name=name)

    first = sym.Activation(sym.BatchNorm(convolution(sym.Variable("data"), "c1"), name="bn"), act_type="relu")
    second = sym.LeakyReLU(convolution(first, "c2", groups=2), act_type="leaky")
    joined = sym.Concat(first + second, sym.sigmoid(second), dim=1)
    pooled = sym.Pooling(joined, kernel=(2, 2), stride=(2, 2), pool_type="max")
    return sym.FullyConnected(sym.Pooling(pooled, global_pool=True, pool_type="avg"), num_hidden=5, name="fc")


class Batches(CalibrationDataReader):
    def __init__(self) -> None:
        self._batches = iter([{"data": np.random.default_rng(i).normal(size=SHAPE).astype("f")} for i in range(4)])

    def get_next(self) -> dict[str, np.ndarray]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return next(self._batches, None)  # pyright: ignore[reportReturnType]


@pytest.mark.slow("quantises a network in five ways")
def test_what_onnxruntime_quantised_gives_its_results(tmp_path: Path):
    """But for a level where a runtime rounds what it computed in another order."""
    net, random = network(), np.random.default_rng(0)
    shapes, _, states = net.infer_shape(data=SHAPE)
    arrays = zip(net.list_arguments(), shapes, strict=True)
    args = {name: random.normal(0, 0.3, shape).astype("f") for name, shape in arrays if name != "data"}
    aux = {name: np.ones(shape, "f") for name, shape in zip(net.list_auxiliary_states(), states, strict=True)}
    floats = tmp_path / "floats.onnx"
    onnx.save(nn.to_onnx(net, args, aux, shapes={"data": SHAPE}), floats)
    made = {"dynamic": tmp_path / "dynamic.onnx"}
    quantize_dynamic(floats, made["dynamic"])
    for form in (QuantFormat.QDQ, QuantFormat.QOperator):
        for dtype, per_channel in ((QuantType.QUInt8, True), (QuantType.QInt8, False)):
            path = made[f"{form.name} {dtype.name}"] = tmp_path / f"{form.name}{dtype.name}.onnx"
            static = {"quant_format": form, "activation_type": dtype, "per_channel": per_channel}
            static["reduce_range"] = True  # else onnxruntime's sums overflow on processors without VNNI
            quantize_static(floats, path, Batches(), weight_type=QuantType.QInt8, **static)
    data = random.normal(size=SHAPE).astype("f")
    for name, path in made.items():
        model = onnx.load(path)
        back, weights, back_aux = nn.from_onnx(model)
        (ours,), _ = compile(back)({**weights, "data": data}, back_aux)
        (theirs,) = run(model, {"data": data})
        tolerance = np.abs(theirs).max() * (1e-6 if name == "dynamic" else 1 / 127)
        np.testing.assert_allclose(ours, theirs, atol=tolerance, err_msg=name)


@pytest.mark.slow("quantises a network")
@pytest.mark.parametrize("exact", [False, True])
def test_onnxruntime_computes_with_integers(tmp_path: Path, exact: bool):
    """Fused layers whose data and results have one dtype become QLinearConv and QGemm. exact: by the option for
    processors without VNNI, where sums of two products would overflow; it fails where parameters share a zero point."""
    net = sym.Variable("data")
    for i in range(2):
        net = sym.Convolution(net, kernel=(3, 3), num_filter=8, no_bias=bool(i), name=f"c{i}")
        net = sym.Activation(sym.BatchNorm(net, fix_gamma=bool(i), name=f"bn{i}"), act_type="relu", name=f"r{i}")
    net = sym.Activation(sym.FullyConnected(net, num_hidden=5, name="fc0"), act_type="relu", name="r2")
    net = sym.FullyConnected(net, num_hidden=5, name="fc1")
    random = np.random.default_rng(0)
    shapes, _, states = net.infer_shape(data=SHAPE)
    args = {
        name: random.normal(0, 0.3, shape).astype("f")
        for name, shape in zip(net.list_arguments(), shapes, strict=True)
        if name != "data"
    }
    aux = {
        name: random.uniform(0.5, 2, shape).astype("f")
        for name, shape in zip(net.list_auxiliary_states(), states, strict=True)
    }
    data = random.uniform(0, 1, SHAPE).astype("f")
    wide = data * (1 if exact else 2.2)  # so that no sum of two products overflows
    made = nn.quantize(net, args, aux, calibration=[wide], mode="naive", dtype="auto", fused=True)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    if exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(made.to_onnx({"data": SHAPE}).SerializeToString(), options)
    kinds = {node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node}
    assert {"QLinearConv", "QGemm"} <= kinds
    assert not kinds & {"Conv", "FusedConv", "BatchNormalization", "Gemm", "FusedGemm", "MatMul"}
    theirs = np.asarray(session.run(None, {"data": data})[0])
    ours = np.asarray(made.predictor()(data=data)[0])
    np.testing.assert_allclose(theirs, ours, atol=np.abs(ours).max() / 127)  # a level, where an end was rounded


@pytest.mark.parametrize("granularity", ["tensor-wise", "channel-wise"])
@pytest.mark.parametrize(("width", "weight"), [(1, 0), (1, 1e-6), (1e-6, 1), (1e-6, 1e-6)])
def test_biases_do_not_overflow(width: float, weight: float, granularity: str):
    """MXNet has these widths in tests of its own: levels of weights give way where a bias has too many."""
    net = sym.Convolution(sym.Variable("data"), kernel=(1, 1), num_filter=6, name="conv")
    net = sym.FullyConnected(sym.Activation(net, act_type="relu"), num_hidden=4, name="fc")
    random = np.random.default_rng(0)
    shapes = {"conv_weight": (6, 4, 1, 1), "conv_bias": (6,), "fc_weight": (4, 24), "fc_bias": (4,)}
    args = {
        name: (random.uniform(-1, 1, shape) * (weight if "weight" in name else 1)).astype("f")
        for name, shape in shapes.items()
    }
    data = (width * random.uniform(-1, 1, (3, 4, 2, 2))).astype("f")
    made = nn.quantize(net, args, calibration=[data], mode="naive", fused=True, granularity=granularity)  # pyright: ignore[reportArgumentType]
    (theirs,) = run(made.to_onnx({"data": data.shape}), {"data": data})
    ours = np.asarray(made.predictor()(data=data)[0])
    expected = np.asarray(nn.Model(net, args).predictor()(data=data)[0])
    np.testing.assert_allclose(ours, expected, atol=np.abs(expected).max() * 0.02)
    np.testing.assert_allclose(theirs, expected, atol=np.abs(expected).max() * 0.02)


LEVELS = np.asarray([[1, 2, 3], [4, 5, 6]], np.uint8)
COMPUTED: dict[str, tuple[onnx.NodeProto, np.ndarray, list[Any]]] = {
    "a scale and a zero point for each row": (
        node("QLinearMatMul", "x scales zeros w one zero half zero"), LEVELS, [[[16, 34], [32, 68]]]
    ),
    "zeros": (node("DynamicQuantizeLinear", "x", "y s z"), np.zeros((2, 3), "f"), [np.zeros((2, 3)), 1 / 255, 0]),
}  # fmt: skip
"""(node, x, results by hand): onnxruntime takes one scale for all rows, and has another scale for zeros."""


@pytest.mark.parametrize("name", COMPUTED)
def test_levels_are_onnxs(name: str):
    made, x, expected = COMPUTED[name]
    numbers: dict[str, Any] = {"scales": [1, 2], "one": 1, "half": 0.5}
    weights = {each: np.asarray(value, np.float32) for each, value in numbers.items()}
    weights |= {"zeros": np.asarray([1, 4], np.uint8), "zero": np.asarray(0, np.uint8), "w": LEVELS.T}
    dtype = "UINT8" if x.dtype == np.uint8 else "FLOAT"
    model = model_of([made], {"x": (dtype, x.shape)}, made.output, {n: weights[n] for n in {*made.input} - {"x"}})
    for found, by_hand in zip(ours(model, {"x": x}), expected, strict=True):
        np.testing.assert_allclose(found, by_hand, rtol=1e-6)


def test_levels_that_mxnet_lacks_are_refused():
    def model(zero: np.generic, domain: str = "") -> onnx.ModelProto:
        constant = onnx.numpy_helper.from_array
        node = onnx.helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"], name="q", domain=domain)
        ends = [onnx.helper.make_tensor_value_info(name, 1, (2, 3)) for name in "xy"]
        weights = [constant(np.array(0.1, "f"), "scale"), constant(np.asarray(zero), "zero")]
        graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], weights)
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])

    with pytest.raises(OnnxError, match="cannot quantise to int16.*'q'"):
        nn.from_onnx(model(np.int16(0)))
    with pytest.raises(OnnxError, match="domain 'com.acme'"):
        nn.from_onnx(model(np.int8(0), "com.acme"))
