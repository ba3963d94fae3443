"""`mx.contrib.onnx`: ONNX files as symbols with their arrays, as blocks, and what goes into them and comes out."""

from __future__ import annotations

from pathlib import Path

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
def test_a_file_is_a_block_on_contexts(path: Path, contexts: object):
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
