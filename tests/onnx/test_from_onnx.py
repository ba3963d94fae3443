"""`from_onnx`: the golden networks come back, models that others write are read, and the result can be trained."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import lowering
import symjax_nnvm as nn
from symjax_nnvm.errors import MissingExtraError, OnnxError, SymbolTypeError, SymbolValueError
from symjax_nnvm.onnx import onnx_import
from tests.mxnet_files.test_networks import NAMES, part
from tests.onnx.runtime import Arrays, again, run
from tests.onnx.test_networks import exported, fixed, load, of_any_batch
from tests.support.comparison import assert_close

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Any],
    outputs: Sequence[str] = ("y",),
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    """A model of nodes. inputs: name → shape, or (dtype, shape)."""
    infos = []
    for name, shape in inputs.items():
        dtype, sizes = shape if len(shape) == 2 and isinstance(shape[1], tuple) else ("FLOAT", shape)
        infos.append(helper.make_tensor_value_info(name, getattr(TensorProto, dtype), sizes))
    graph = helper.make_graph(
        list(nodes),
        "graph",
        infos,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    for info in graph.output:
        info.type.tensor_type.elem_type = TensorProto.FLOAT
    versions = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=versions, ir_version=max(helper.find_min_ir_version_for(versions), 4))


def node(kind: str, inputs: str, outputs: str = "y", name: str = "", **attrs: Any) -> onnx.NodeProto:
    """`-` stands for an input that is left out."""
    given = ["" if each == "-" else each for each in inputs.split()]
    return helper.make_node(kind, given, outputs.split(), name=name or outputs.split()[0], **attrs)


def operators(net: nn.Symbol) -> list[str]:
    nodes = dict.fromkeys(each.outputs[0].node for each in net.get_internals())
    return [node.op.name for node in nodes if node.op is not None]


def assert_same(model: onnx.ModelProto, inputs: Arrays, rtol: float = 1e-5, **options: Any) -> None:
    """onnxruntime computes the same of a model and of what came back: values, shapes and dtypes."""
    pairs = zip(run(again(model, inputs, **options), inputs), run(model, inputs), strict=True)
    for i, (output, other) in enumerate(pairs):
        assert_close(output, other, rtol, f"output {i}")
        assert np.asarray(output).dtype == np.asarray(other).dtype, f"output {i}"


# -- our own files ----------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_network_comes_back(name: str):
    model, inputs = exported(name, fixed(name)), part(name, "in")
    assert_same(model, inputs, rtol=1e-6)


def test_layers_are_mxnets_own_with_their_names():
    symbol, args, aux = load("cnn")
    net, back, states = nn.from_onnx(exported("cnn", of_any_batch("cnn")))
    assert net.list_outputs() == nn.inference_symbol(symbol).list_outputs()
    assert {"Convolution", "BatchNorm", "Pooling", "FullyConnected", "Activation", "softmax"} <= set(operators(net))
    assert states.keys() == aux.keys()
    for name in ("conv1_weight", "fc1_weight", "fc1_bias", *aux):
        np.testing.assert_array_equal((back | states)[name], (args | aux)[name])
    assert back.keys() - args.keys() == {"bn2/constant", "prelu2/constant"}  # a gamma that is fixed, slopes in a column


def test_a_recurrence_of_any_batch_comes_back():
    model = exported("gluon_lstm", of_any_batch("gluon_lstm"))
    assert operators(nn.from_onnx(model)[0]).count("RNN") == 2
    assert_same(model, part("gluon_lstm", "in"), rtol=1e-6)


@pytest.mark.slow("compiles")
def test_what_comes_back_is_trained_and_predicts(tmp_path: Path):
    nn.save_onnx(tmp_path / "net.onnx", exported("cnn", of_any_batch("cnn")))
    model = nn.Model.load(tmp_path / "net.onnx")
    (data,) = (part("cnn", "in")[name] for name in model.inputs)
    (expected,) = run(onnx.load(tmp_path / "net.onnx"), {"data": data})
    assert_close(model.predictor()(data=data)[0], expected, 1e-5, "prediction")
    last = [name for name in model.net.get_internals().list_outputs() if name.startswith("fc")][-1]
    net = model.replace_head(last, lambda x: nn.symbol.SoftmaxOutput(x, name="softmax")).net
    trainer = lowering.Trainer(net, "sgd")
    trainer.init(0, model.args, model.aux, data=data.shape)
    trainer.step({"data": data, "softmax_label": np.zeros(len(data), np.float32)})
    assert trainer.state is not None
    trained = trainer.state.params["conv1_weight"], trainer.state.aux["bn2_moving_mean"]
    for array, before in zip(trained, (model.args["conv1_weight"], model.aux["bn2_moving_mean"]), strict=True):
        assert np.any(np.asarray(array) != before)


# -- what others write ------------------------------------------------------------------------------------------------

X4 = {"x": floats(2, 4, 7, 6)}
W = {"w": floats(6, 4, 3, 3), "b": floats(6)}


@pytest.mark.parametrize(
    "attrs",
    [
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "VALID", "strides": [2, 1]},
        {"pads": [0, 1, 2, 1], "strides": [1, 2]},
        {"dilations": [2, 1], "pads": [1, 1, 1, 1]},
    ],
)
def test_windows_of_every_padding(attrs: dict[str, Any]):
    assert_same(model_of([node("Conv", "x w b", **attrs)], {"x": (2, 4, 7, 6)}, weights=W), X4)
    attrs.pop("dilations", None)
    for kind in ("MaxPool", "AveragePool", "LpPool"):
        if kind == "LpPool" and "LOWER" in attrs.get("auto_pad", ""):
            continue  # onnxruntime pads the other side
        assert_same(model_of([node(kind, "x", kernel_shape=[3, 3], **attrs)], {"x": (2, 4, 7, 6)}), X4)


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]])
def test_means_of_windows_that_reach_past_the_data(include: int, pads: list[int]):
    how: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": pads, "count_include_pad": include}
    assert_same(model_of([node("AveragePool", "x", **how)], {"x": (2, 4, 7, 6)}), X4)
    if not include:
        assert_same(model_of([node("AveragePool", "x", ceil_mode=1, **how)], {"x": (2, 4, 7, 6)}), X4)
        how.pop("count_include_pad")
        assert_same(model_of([node("MaxPool", "x", ceil_mode=1, **how)], {"x": (2, 4, 7, 6)}), X4)


@pytest.mark.parametrize(
    "attrs",
    [{"pads": [1, 0, 0, 1]}, {"output_padding": [1, 1]}, {"output_shape": [13, 12]}, {"auto_pad": "SAME_UPPER"}],
)
def test_transposed_convolutions(attrs: dict[str, Any]):
    weights = {"w": floats(4, 3, 3, 3), "b": floats(3)}
    made = model_of([node("ConvTranspose", "x w b", strides=[2, 2], **attrs)], {"x": (2, 4, 7, 6)}, weights=weights)
    assert_same(made, X4)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("bias", ["none", "vector", "row", "scalar", "matrix"])
def test_gemm_of_every_kind(trans_a: int, trans_b: int, bias: str):
    shapes = {"vector": (5,), "row": (1, 5), "scalar": (), "matrix": (3, 5)}
    weights = {"w": floats(*((5, 4) if trans_b else (4, 5)))}
    weights |= {} if bias == "none" else {"c": np.asarray(floats(*shapes[bias]), np.float32)}
    how: dict[str, Any] = {"transA": trans_a, "transB": trans_b, "alpha": 0.5, "beta": 2.0}
    x = floats(*((4, 3) if trans_a else (3, 4)))
    made = model_of([node("Gemm", "x w" + " c" * (bias != "none"), name="fc", **how)], {"x": x.shape}, weights=weights)
    assert_same(made, {"x": x})
    net, args, _ = nn.from_onnx(made)
    assert ("FullyConnected" in operators(net), net.name if bias != "matrix" else "fc", "w" in args) == (
        True,
        "fc",
        True,
    )


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrences(kind: str, direction: str):
    k, gates = 1 + (direction == "bidirectional"), {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    weights = {"w": floats(k, gates * 3, 2), "r": floats(k, gates * 3, 3), "b": floats(k, gates * 6)}
    how: dict[str, Any] = {"hidden_size": 3, "direction": direction} | (
        {"linear_before_reset": 1} if kind == "GRU" else {}
    )
    outputs = "y h c" if kind == "LSTM" else "y h"
    made = model_of([node(kind, "x w r b", outputs, **how)], {"x": ("t", "n", 2)}, outputs.split(), weights)
    assert_same(made, {"x": floats(4, 2, 2)})
    lengths = node(kind, "x w r b lengths", outputs, **how)
    given = {"x": (4, 2, 2), "lengths": ("INT32", (2,))}
    x = {"x": floats(4, 2, 2), "lengths": np.asarray([2, 4], np.int32)}
    assert_same(model_of([lengths], given, outputs.split(), weights), x)


def test_shapes_that_are_computed_become_reshapes():
    """What PyTorch writes for `x.view(x.size(0), -1)`, and for heads of attention."""
    nodes = [
        *(node("Shape", "x", "s"), node("Constant", "", "zero", value_int=0), node("Gather", "s zero", "n")),
        *(node("Unsqueeze", "n axes", "n1"), node("Concat", "n1 minus", "shape", axis=0)),
        *(node("Reshape", "x shape", "flat"), node("Gather", "s one", "t"), node("Unsqueeze", "t axes", "t1")),
        node("Concat", "n1 t1 heads", "split", axis=0),
        *(node("Reshape", "x split", "four"), node("Transpose", "four", "turned", perm=[0, 2, 1, 3])),
        *(node("Cast", "n", "number", to=1), node("Div", "turned number", "scaled")),
    ]
    weights = {"axes": [0], "minus": [-1], "one": 1, "heads": [2, 3]}
    arrays = {name: np.asarray(value, np.int64) for name, value in weights.items()}
    made = model_of(nodes[:-2], {"x": ("n", "t", 6)}, ("flat", "turned"), arrays)
    net, args, _ = nn.from_onnx(made)
    assert (args, set(operators(net))) == ({}, {"Reshape", "transpose"})
    assert_same(made, {"x": floats(3, 5, 6)})
    with pytest.raises(OnnxError, match="'scaled'.*shapes="):
        nn.from_onnx(model_of(nodes, {"x": ("n", "t", 6)}, ("scaled",), arrays))
    assert_same(model_of(nodes, {"x": ("n", "t", 6)}, ("scaled",), arrays), {"x": floats(3, 5, 6)},
                shapes={"x": (3, 5, 6)})  # fmt: skip


def test_arrays_of_open_sizes_follow_an_input():
    nodes = [
        *(node("Shape", "x", "s"), node("ConstantOfShape", "s", "zeros"), node("Add", "x zeros", "a")),
        *(node("Shape", "x", "n", start=0, end=1), node("Squeeze", "n", "count"), node("Range", "z count o", "steps")),
        *(node("Cast", "steps", "f", to=1), node("Unsqueeze", "f one", "column"), node("Mul", "a column", "y")),
    ]
    weights = {"z": 0, "o": 1, "one": [1]}
    made = model_of(nodes, {"x": ("n", 3)}, weights={name: np.asarray(v, np.int64) for name, v in weights.items()})
    assert_same(made, {"x": floats(5, 3)})


@pytest.mark.parametrize(("start", "end", "step"), [(-2, 99, 1), (1, -1, 1), (0, -2, 3), (-1, -99, -1), (-2, 0, -2)])
def test_parts_of_an_open_axis_are_counted_from_its_ends(start: int, end: int, step: int):
    bounds = {name: np.asarray([value]) for name, value in (("s", start), ("e", end), ("a", 0), ("k", step))}
    assert_same(model_of([node("Slice", "x s e a k")], {"x": ("n", 3)}, weights=bounds), {"x": floats(7, 3)})


OLD = {
    "squeeze": (7, [node("Squeeze", "x", "s", axes=[2]), node("Unsqueeze", "s", axes=[0, 3])], (2, 3, 1), {}),
    "slice": (9, [node("Slice", "x", axes=[1, 0], starts=[-2, 0], ends=[9999, 1])], (2, 3, 4), {}),
    "clip": (8, [node("Clip", "x", min=-0.5, max=0.5)], (2, 3), {}),
    "clip_low": (8, [node("Clip", "x", min=-0.5)], (2, 3), {}),
    "pad": (10, [node("Pad", "x", pads=[0, 1, 2, 0], value=1.5)], (2, 3), {}),
    "sum": (11, [node("ReduceSum", "x", axes=[1], keepdims=0)], (2, 3, 4), {}),
    "upsample": (7, [node("Upsample", "x", scales=[1.0, 1.0, 2.0, 2.0], mode="nearest")], (1, 2, 3, 4), {}),
    "upsample_9": (9, [node("Upsample", "x scales")], (1, 2, 3, 4), {"scales": np.asarray([1, 1, 2, 3], np.float32)}),
    "resize": (10, [node("Resize", "x scales", mode="linear")], (1, 2, 3, 4),
               {"scales": np.asarray([1, 1, 2, 2], np.float32)}),
    "dropout": (7, [node("Dropout", "x", ratio=0.3)], (2, 3), {}),
    "softmax": (12, [node("Softmax", "x", axis=1)], (2, 3, 4), {}),
    "log_softmax": (11, [node("LogSoftmax", "x", axis=2)], (2, 3, 4), {}),
    "hardmax": (11, [node("Hardmax", "x", axis=1)], (2, 3, 4), {}),
    "split": (11, [node("Split", "x", "a y", axis=1, split=[1, 2])], (2, 3), {}),
    "top_k": (10, [node("TopK", "x k", "y i", axis=1)], (2, 5), {"k": np.asarray([2], np.int64)}),
    "batch_norm": (8, [node("BatchNormalization", "x g g m v")], (2, 3, 4),
                   {"g": floats(3), "m": floats(3), "v": floats(3) ** 2 + 0.1}),
    "col2im": (18, [node("Col2Im", "x s b")], (2, 4, 9),
               {"s": np.asarray([4, 4], np.int64), "b": np.asarray([2, 2], np.int64)}),
    "one_hot": (9, [node("Cast", "x", "i", to=7), node("OneHot", "i d v", axis=1)], (2, 3),
                {"d": np.asarray(4, np.int64), "v": np.asarray([-1, 2], np.float32)}),
}  # fmt: skip
"""What older opsets say otherwise: (opset, nodes, the input's shape, weights)."""


@pytest.mark.parametrize("name", OLD)
def test_old_opsets(name: str):
    opset, nodes, shape, weights = OLD[name]
    assert_same(model_of(nodes, {"x": shape}, weights=weights, opset=opset), {"x": floats(*shape)})


def _resize(mode: str, size: tuple[int, ...], transformation: str = "half_pixel", **more: Any) -> list[onnx.NodeProto]:
    how: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transformation, **more}
    return [node("Constant", "", "z", value_ints=list(size)), node("Resize", "x - - z", **how)]


I64 = {"i": np.asarray([[1, 0], [-1, 2]], np.int64), "j": np.asarray(1, np.int64)}
NEW: dict[str, tuple[int, list[onnx.NodeProto], tuple[int, ...], dict[str, np.ndarray]]] = {
    "nearest": (18, _resize("nearest", (1, 2, 5, 9)), (1, 2, 3, 4), {}),
    "nearest_ceil": (18, _resize("nearest", (1, 2, 6, 8), "asymmetric", nearest_mode="ceil"), (1, 2, 3, 4), {}),
    "linear": (18, _resize("linear", (1, 2, 6, 7)), (1, 2, 3, 4), {}),
    "aligned": (18, _resize("linear", (1, 2, 6, 7), "align_corners"), (1, 2, 3, 4), {}),
    "asymmetric": (18, _resize("linear", (1, 2, 6, 7), "asymmetric"), (1, 2, 3, 4), {}),
    "cubic": (18, _resize("cubic", (1, 2, 6, 7)), (1, 2, 3, 4), {}),
    "linear_1d": (18, _resize("linear", (1, 2, 6)), (1, 2, 3), {}),
    "gelu": (20, [node("Gelu", "x", approximate="tanh")], (2, 3), {}),
    "celu": (18, [node("Celu", "x", alpha=2.0)], (2, 3), {}),
    "selu": (18, [node("Selu", "x", alpha=1.5, gamma=1.1)], (2, 3), {}),
    "hard_swish": (18, [node("HardSwish", "x")], (2, 3), {}),
    "mish": (18, [node("Mish", "x")], (2, 3), {}),
    "thresholded": (18, [node("ThresholdedRelu", "x", alpha=0.3)], (2, 3), {}),
    "shrink": (18, [node("Shrink", "x", lambd=0.4, bias=0.2)], (2, 3), {}),
    "prelu": (18, [node("PRelu", "x s")], (2, 3, 4), {"s": floats(3, 1)}),
    "prelu_last": (18, [node("PRelu", "x s")], (2, 3, 4), {"s": floats(4)}),
    "round": (18, [node("Mul", "x t", "u"), node("Round", "u")], (4, 9), {"t": np.asarray(2, np.float32)}),
    "group_norm": (21, [node("GroupNormalization", "x s s", num_groups=2)], (2, 4, 3), {"s": floats(4)}),
    "layer_norm": (18, [node("LayerNormalization", "x s s", axis=1)], (2, 3, 4), {"s": floats(3, 4)}),
    "lp_norm": (18, [node("LpNormalization", "x", axis=1, p=2)], (2, 3), {}),
    "mean_variance": (18, [node("MeanVarianceNormalization", "x")], (2, 3, 4, 5), {}),
    "crd": (18, [node("DepthToSpace", "x", blocksize=2, mode="CRD")], (1, 8, 2, 3), {}),
    "gather": (18, [node("Gather", "x i", axis=1)], (2, 3, 4), I64),
    "gather_one": (18, [node("Gather", "x j", axis=1)], (2, 3, 4), I64),
    "gather_elements": (18, [node("GatherElements", "x i", axis=1)], (2, 3), I64),
    "scatter": (18, [node("ScatterND", "x i v")], (3, 3), {"i": np.asarray([[1, 0], [2, 2]]), "v": floats(2)}),
    "tril": (18, [node("Trilu", "x", upper=0)], (2, 3, 4), {}),
    "cum_sum": (18, [node("CumSum", "x j", exclusive=1, reverse=1)], (2, 5), I64),
    "where": (18, [node("Greater", "x t", "c"), node("Where", "c x t")], (2, 3), {"t": floats(2, 1, 1)}),
    "log_sum_exp": (18, [node("ReduceLogSumExp", "x", keepdims=0)], (2, 3), {}),
    "reduce_all": (18, [node("ReduceMean", "x", keepdims=0)], (2, 3), {}),
    "matmul": (18, [node("MatMul", "w x")], (2, 4, 3), {"w": floats(5, 4)}),
    "matmul_broadcast": (18, [node("Transpose", "x", "t", perm=[0, 1, 3, 2]), node("MatMul", "x t")], (2, 1, 4, 3), {}),
    "matmul_vector": (18, [node("MatMul", "x w")], (2, 4, 3), {"w": floats(3)}),
    "arg_last": (18, [node("ArgMax", "x", "m", axis=1, keepdims=0, select_last_index=1), node("Cast", "m", to=1)],
                 (3, 4), {}),
    "slice_back": (18, [node("Slice", "x s e a k")], (3, 5),
                   {n: np.asarray(v, np.int64) for n, v in {"s": [-1], "e": [-999], "a": [1], "k": [-2]}.items()}),
    "expand": (18, [node("Expand", "x s")], (3, 1), {"s": np.asarray([2, 1, 4], np.int64)}),
    "variadic": (18, [node("Max", "x w x", "a"), node("Mean", "a w", "b"), node("Min", "b x")], (2, 3),
                 {"w": floats(3)}),
    "fmod": (18, [node("Mod", "x w", fmod=1)], (2, 3), {"w": floats(3) + 3}),
    "pool_lower": (18, [node("GlobalLpPool", "x", p=2)], (2, 3, 4, 4), {}),
    "nearest_thrice": (18, _resize("nearest", (1, 2, 9, 12), "asymmetric"), (1, 2, 3, 4), {}),
    "mean_variance_axes": (18, [node("MeanVarianceNormalization", "x", axes=[1, 2])], (2, 3, 4), {}),
    "eye": (18, [node("EyeLike", "x", "e", k=1), node("Add", "x e")], (3, 4), {}),
    "gather_last": (18, [node("GatherElements", "x l", axis=1)], (2, 3), {"l": np.asarray([[-1], [0]], np.int64)}),
    "gather_of_two_axes": (18, [node("GatherND", "x n", batch_dims=2)], (2, 3, 4),
                           {"n": np.asarray([[[0], [3], [1]], [[2], [0], [1]]], np.int64)}),
    "reverse_sequence": (18, [node("ReverseSequence", "x l", time_axis=1, batch_axis=0)], (2, 4, 3),
                         {"l": np.asarray([2, 4], np.int64)}),
}  # fmt: skip
"""What our exporter does not write: (opset, nodes, the input's shape, weights)."""


@pytest.mark.parametrize("name", NEW)
def test_other_operators(name: str):
    opset, nodes, shape, weights = NEW[name]
    assert_same(model_of(nodes, {"x": shape}, weights=weights, opset=opset), {"x": floats(*shape)})


def test_states_that_share_an_array_become_their_own():
    """Exporters store equal arrays once: gamma and variance, beta and mean of a network that was never trained."""
    norms = [node("BatchNormalization", "x o z z o", "a"), node("BatchNormalization", "a o z z o", "y")]
    made = model_of(norms, {"x": (2, 3)}, weights={"o": np.ones(3, np.float32), "z": np.zeros(3, np.float32)})
    _, args, aux = nn.from_onnx(made)
    assert list(args) == ["o", "z"]
    assert list(aux) == ["a_moving_mean", "a_moving_var", "y_moving_mean", "y_moving_var"]


def test_constants_of_the_graph_are_not_trained():
    scale = node("Constant", "", "scale", value=onnx.numpy_helper.from_array(floats(3)))
    net, args, _ = nn.from_onnx(model_of([scale, node("Mul", "x scale")], {"x": (2, 3)}))
    assert [net.attr_dict()["scale"][key] for key in ("__lr_mult__", "__wd_mult__")] == ["0.0", "0.0"]
    assert list(args) == ["scale"]


def test_random_numbers_are_drawn_here():
    nodes = [node("RandomNormalLike", "x", "r", mean=1.0), node("RandomUniform", "", "u", shape=[2, 3]),
             node("Sum", "x r u")]  # fmt: skip
    net, _, _ = nn.from_onnx(model_of(nodes, {"x": (2, 3)}))
    assert {"_random_normal_like", "_random_uniform"} <= set(operators(net))


# -- what cannot be read ----------------------------------------------------------------------------------------------


def test_every_node_in_the_way_is_listed():
    nodes = [
        node("BitShift", "x x", "a", name="product", direction="LEFT"),
        node("NonZero", "x", "n"),
        node("MaxPool", "x", "m", name="pool", kernel_shape=[2], dilations=[2]),
        node("Relu", "m", "y"),
    ]
    with pytest.raises(OnnxError) as caught:
        nn.from_onnx(model_of(nodes, {"x": (2, 3, 5)}, ("a", "n", "y")))
    for said in ("3 of its nodes", "'BitShift', node 'product'", "there is no form", "'NonZero', node 'n'", "opset 18",
                 "node 'pool'", "no dilation"):  # fmt: skip
        assert said in str(caught.value)
    assert "Relu" not in str(caught.value)


def test_a_domain_of_others_is_told():
    made = model_of([helper.make_node("Fused", ["x"], ["y"], domain="com.microsoft", name="f")], {"x": (2,)})
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    with pytest.raises(OnnxError, match="'com.microsoft'.*'Fused', node 'f'"):
        nn.from_onnx(made)


def test_an_operator_of_ones_own_is_registered():
    made = model_of([node("Unique", "x", name="u")], {"x": (2,)})
    with pytest.raises(OnnxError, match="'Unique'"):
        nn.from_onnx(made)
    onnx_import("Unique", since=18)(lambda g, x: g.op("sort", x))
    assert operators(nn.from_onnx(made)[0]) == ["sort"]


def test_shapes_that_do_not_fit_are_told():
    made = model_of([node("Relu", "x")], {"x": ("n", 3)})
    with pytest.raises(SymbolValueError, match="no input 'data'. It has x"):
        nn.from_onnx(made, shapes={"data": (1, 3)})
    with pytest.raises(SymbolValueError, match="'x' is .*in the file, got"):
        nn.from_onnx(made, shapes={"x": (1, 4)})
    with pytest.raises(SymbolTypeError, match="onnx.ModelProto or a path"):
        nn.from_onnx(3)  # pyright: ignore[reportArgumentType]


def test_opsets_that_are_not_read_are_told():
    with pytest.raises(OnnxError, match="Opset 6 cannot be read.*convert_version"):
        nn.from_onnx(model_of([node("Relu", "x")], {"x": (2,)}, opset=6))


def test_without_onnx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'symjax-nnvm\[onnx\]'"):
        nn.from_onnx(tmp_path / "net.onnx")
