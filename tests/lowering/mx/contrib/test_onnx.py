"""`mx.contrib.onnx`: ONNX files as symbols with their arrays, as blocks, and what goes into them and comes out."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from lowering import mx
from lowering.mx.contrib import onnx as onnx_mxnet
from lowering.mx.contrib.onnx.onnx2mx.import_model import import_model

DATA = np.random.RandomState(0).randn(2, 4).astype(np.float32)
WEIGHT, BIAS = np.arange(12, dtype=np.float32).reshape(3, 4), np.array([0, 1, 2], np.float32)
SCALE, SHIFT, MEAN, VAR = (np.array(x, np.float32) for x in ([1, 2, 1], [0, 1, 0], [1, 2, 3], [1, 4, 1]))
RESULT = (DATA @ WEIGHT.T + BIAS - MEAN) / np.sqrt(VAR + 1e-5) * SCALE + SHIFT


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose batch is open, which lists its weights among its inputs, as old ones do."""
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1, name="gemm"),
        helper.make_node("BatchNormalization", ["h", "scale", "shift", "mean", "var"], ["y"], name="bn"),
    ]
    weights = {"w": WEIGHT, "b": BIAS, "scale": SCALE, "shift": SHIFT, "mean": MEAN, "var": VAR}
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 4))]
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, each.shape) for name, each in weights.items()]
    graph = helper.make_graph(
        nodes,
        "net",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch", 3))],
        [numpy_helper.from_array(each, name) for name, each in weights.items()],
    )
    file = tmp_path_factory.mktemp("onnx") / "net.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=6), file)
    return file


def test_a_file_is_a_symbol_with_its_arguments_and_states(path: Path):
    assert onnx_mxnet.import_model is import_model
    net, args, aux = onnx_mxnet.import_model(str(path))
    assert (set(args), set(aux)) == ({"w", "b", "scale", "shift"}, {"mean", "var"})
    assert all(isinstance(array, mx.nd.NDArray) for array in (*args.values(), *aux.values()))
    executor = net.bind(mx.cpu(), {**args, "x": mx.nd.array(DATA)}, aux_states=aux)
    np.testing.assert_allclose(executor.forward()[0].asnumpy(), RESULT, rtol=1e-5, atol=1e-5)


def test_metadata_have_inputs_and_outputs_with_their_shapes(path: Path):
    """The values are those of MXNet 1.9.1's `get_graph_metadata`."""
    assert onnx_mxnet.get_model_metadata(str(path)) == {
        "input_tensor_data": [("x", (0, 4), TensorProto.FLOAT)],
        "output_tensor_data": [("y", (0, 3))],
    }
    with pytest.raises(mx.MXNetError, match=r"nowhere.onnx"):
        onnx_mxnet.get_model_metadata("nowhere.onnx")


@pytest.mark.parametrize("contexts", [mx.cpu(), [mx.cpu(0), mx.cpu(1)]], ids=["one", "several"])
def test_a_file_is_a_block_on_contexts(path: Path, contexts: mx.Context | list[mx.Context]):
    block = onnx_mxnet.import_to_gluon(str(path), ctx=contexts)
    assert isinstance(block, mx.gluon.SymbolBlock)
    np.testing.assert_allclose(block(mx.nd.array(DATA)).asnumpy(), RESULT, rtol=1e-5, atol=1e-5)
    assert block.collect_params()["w"].list_ctx() == (contexts if isinstance(contexts, list) else [contexts])


def test_sizes_that_a_file_leaves_open_may_be_given(tmp_path: Path):
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Size", ["x"], ["n"]),
        helper.make_node("Cast", ["n"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["x", "number"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes, "net", [info("x", TensorProto.FLOAT, ("n",))], [info("z", TensorProto.FLOAT, ("n",))]
    )
    file = tmp_path / "net.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), file)
    with pytest.raises(mx.MXNetError, match="shapes="):
        onnx_mxnet.import_model(file)
    net, args, _ = onnx_mxnet.import_model(file, shapes={"x": (4,)})
    executor = net.bind(mx.cpu(), {**args, "x": mx.nd.array([4.0, 8, 0, 2])})
    assert executor.forward()[0].asnumpy().tolist() == [1, 2, 0, 0.5]


@pytest.mark.parametrize("kind", ["Add", "Mul", "Pow", "PRelu", "Max"])
def test_a_weight_that_is_broadcast_has_its_own_shape_in_a_module(kind: str, tmp_path: Path):
    """A shape that the network alone would not infer, or infer to be another: MXNet notes it, too."""
    for shape in ((1,), (3, 1, 1), (2,), (1, 3, 1, 1)):
        weight = np.full(shape, 2, np.float32)
        graph = helper.make_graph(
            [helper.make_node(kind, ["x", "w"], ["y"])],
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 2, 2))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3, 2, 2))],
            [numpy_helper.from_array(weight, "w")],
        )
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "net.onnx")
        net, args, aux = onnx_mxnet.import_model(tmp_path / "net.onnx")
        module = mx.mod.Module(net, ["x"], None)
        module.bind([("x", (2, 3, 2, 2))], for_training=False)
        module.set_params(args, aux)
        data = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 2, 2)
        module.forward(mx.io.DataBatch([mx.nd.array(data)]))
        computed = module.get_outputs()[0].asnumpy()
        functions: dict[str, Any] = {"Add": np.add, "Mul": np.multiply, "Pow": np.power, "Max": np.maximum}
        expected = np.where(data < 0, 2 * data, data) if kind == "PRelu" else functions[kind](data, weight)
        np.testing.assert_allclose(computed, expected, rtol=1e-5)


def test_slopes_of_a_gluon_network_go_through_a_file_into_a_module(tmp_path: Path):
    block = mx.gluon.nn.HybridSequential()
    block.add(mx.gluon.nn.Dense(4, in_units=3), mx.gluon.nn.PReLU())
    block.initialize()
    block.hybridize()
    data = mx.nd.array([[1, -2, 3], [-4, 5, -6]])
    expected = block(data)
    block.export(str(tmp_path / "net"))
    symbol, params = (str(tmp_path / f"net-{part}") for part in ("symbol.json", "0000.params"))
    onnx_mxnet.export_model(symbol, params, [(2, 3)], np.float32, tmp_path / "net.onnx")
    net, args, aux = onnx_mxnet.import_model(tmp_path / "net.onnx")
    module = mx.mod.Module(net, ["data"], None)
    module.bind([("data", (2, 3))], for_training=False)
    module.set_params(args, aux)
    module.forward(mx.io.DataBatch([data]))
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), expected.asnumpy(), rtol=1e-6)


def test_without_the_package_each_function_says_what_to_install(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "onnx", None)
    calls: list[Callable[[], object]] = [
        lambda: onnx_mxnet.import_model(path),
        lambda: onnx_mxnet.import_to_gluon(path, mx.cpu()),
        lambda: onnx_mxnet.get_model_metadata(path),
        lambda: onnx_mxnet.export_model(mx.sym.var("x") + 1, {}, [(2,)], onnx_file_path=tmp_path / "net.onnx"),
        mx.onnx.get_operator_support,
    ]
    for call in calls:
        with pytest.raises(mx.MXNetError, match=r"pip install 'symjax-nnvm\[onnx\]'"):
            call()
