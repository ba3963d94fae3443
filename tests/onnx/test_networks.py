"""The golden networks as ONNX models in onnxruntime: MXNet 1.9.1's outputs, of any batch, folded, in half precision."""

from typing import Any

import numpy as np
import pytest

import symjax_nnvm as nn
from tests.mxnet_files.test_networks import NAMES, NETWORKS, part
from tests.onnx.runtime import run, session
from tests.support.comparison import assert_close


def load(name: str) -> tuple[nn.Symbol, dict[str, Any], dict[str, Any]]:
    return nn.load_model(NETWORKS / f"{name}-symbol.json", NETWORKS / f"{name}-0000.params")


BATCHES = {
    **dict.fromkeys(("cnn", "gluon_dense", "gluon_lstm", "gluon_resnet", "gluon_twins", "text_cnn"), 0),
    **dict.fromkeys(("matrix_factorisation", "mobilenet", "multi_output", "resnet"), 0),
}
"""Networks that take any batch, and the batch axis of their inputs."""


def exported(name: str, shapes: dict[str, Any], **options: Any) -> Any:
    net, args, aux = load(name)
    dtypes = {} if options.get("float16") else {n: array.dtype for n, array in part(name, "in").items()}
    return nn.to_onnx(net, args, aux, shapes=shapes, dtypes=dtypes, **options)


def fixed(name: str) -> dict[str, tuple[int, ...]]:
    return {n: array.shape for n, array in part(name, "in").items()}


def of_any_batch(name: str) -> dict[str, tuple[int | str, ...]]:
    axis = BATCHES[name]
    return {n: (*shape[:axis], "batch", *shape[axis + 1 :]) for n, shape in fixed(name).items()}


def assert_mxnets(name: str, outputs: list[np.ndarray], rtol: float = 1e-5) -> None:
    """Those outputs of the golden network that need no label, in its order."""
    kept = inference(name).list_outputs()
    expected = [part(name, "out")[str(i)] for i, output in enumerate(load(name)[0].list_outputs()) if output in kept]
    for output, array, what in zip(outputs, expected, kept, strict=True):
        assert_close(output, array, rtol, f"{what} of {name}")


def inference(name: str) -> nn.Symbol:
    return nn.inference_symbol(load(name)[0])


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", NAMES)
def test_a_network_computes_what_mxnets_does(name: str):
    model = exported(name, fixed(name))
    assert_mxnets(name, run(model, part(name, "in")))
    assert_mxnets(name, run(model, part(name, "in"), optimised=True))
    assert [output.name for output in model.graph.output] == inference(name).list_outputs()
    named = {node.name for node in model.graph.node} | {each.name for each in model.graph.initializer}
    assert {"conv1", "conv1_weight", "fc1"} <= named or name != "cnn"


@pytest.mark.parametrize("name", BATCHES)
def test_a_named_dimension_takes_any_size(name: str):
    made = session(exported(name, of_any_batch(name)))
    axis, names = BATCHES[name], {each.name for each in made.get_inputs()}
    given = {n: array for n, array in part(name, "in").items() if n in names}
    assert_mxnets(name, made.run(None, given))  # pyright: ignore[reportArgumentType]
    more = {n: np.concatenate([array, array, array], axis) for n, array in given.items()}
    outputs: list[Any] = list(made.run(None, more))
    for output, found in zip(made.get_outputs(), outputs, strict=True):
        size = dict(zip(output.shape, found.shape, strict=True))["batch"]
        assert size == 3 * next(iter(given.values())).shape[axis]


@pytest.mark.parametrize("name", [name for name in BATCHES if "Norm" in load(name)[0].tojson()])
def test_batch_normalisation_is_folded(name: str):
    model = exported(name, of_any_batch(name), fold_batch_norm=True)
    assert "BatchNormalization" in {node.op_type for node in exported(name, fixed(name)).graph.node}
    assert "BatchNormalization" not in {node.op_type for node in model.graph.node}
    assert_mxnets(name, run(model, part(name, "in")))


@pytest.mark.parametrize("name", ["cnn", "gluon_resnet", "rnn_fused", "text_cnn"])
def test_half_precision_is_throughout(name: str):
    model = exported(name, fixed(name), float16=True)
    assert {each.data_type for each in model.graph.initializer} <= {1, 7, 10}  # FLOAT of statistics, INT64, FLOAT16
    half = {n: array.astype(np.float16) for n, array in part(name, "in").items()}
    assert_mxnets(name, run(model, half), rtol=2e-2)
