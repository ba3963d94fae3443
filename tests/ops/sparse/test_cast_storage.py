"""What MXNet made for sparse storage, operators and networks: dense here, with its numbers (tests/goldens/sparse)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import ParamError
from tests.support.comparison import assert_close
from tests.support.traced import evaluated

GOLDENS = Path(__file__).parents[2] / "goldens" / "sparse"
NETWORKS = ("factorisation_machine", "wide_and_deep")
SPARSE = {
    "factorisation_machine": {"data", "factors", "weight", "lengths"},
    "wide_and_deep": {"features", "wide_weight", "table0", "embedding0"},
}
"""Network → variables and operators that ask for sparse storage."""

X = np.array([[1, 0], [0, 0], [3, -4]], np.float32)


def golden(network: str, kind: str) -> dict[str, Any]:
    """MXNet's arrays of a network."""
    prefix = f"{network}|{kind}|"
    with np.load(GOLDENS / "values.npz") as stored:
        return {key.removeprefix(prefix): stored[key] for key in stored if key.startswith(prefix)}


def load(network: str) -> sym.Symbol:
    return sym.load(str(GOLDENS / f"{network}-symbol.json"))


def run(symbol: sym.Symbol, **args: np.ndarray) -> np.ndarray:
    return np.asarray(evaluated(lowering.to_jax(symbol), args)[0][0])


# -- MXNet's networks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_on_sparse_storage_bind_and_differentiate_as_in_mxnet(network: str):
    args, grads = golden(network, "arg"), golden(network, "grad")
    required = {name: "write" if name in grads else "null" for name in args}
    inputs = {name: value.shape for name, value in args.items() if name not in grads}
    executor = lowering.simple_bind(load(network), grad_req=required, **inputs)
    executor.forward(is_train=True, **args)
    executor.backward()
    assert_close(executor.outputs[0], golden(network, "out")["0"], 1e-6, network)
    assert len(grads) >= 3
    for name, expected in grads.items():
        assert_close(executor.grad_dict[name], expected, 1e-5, f"{network}: gradient of {name}")


@pytest.mark.parametrize("network", NETWORKS)
def test_they_train_a_step_as_in_mxnet(network: str):
    args, after = golden(network, "arg"), golden(network, "new")
    inputs = {name: value for name, value in args.items() if name not in after}
    data = [name for name in inputs if name != "label"]
    trainer = lowering.Trainer(load(network), data_names=data, optimizer="sgd", optimizer_params={"learning_rate": 0.1})
    params = {name: value for name, value in args.items() if name in after}
    trainer.init(0, params, **{name: value.shape for name, value in inputs.items()})
    trainer.step(inputs)
    for name, expected in after.items():
        assert_close(trainer.require_state().params[name], expected, 1e-6, f"{network}: {name}")
        assert not np.array_equal(expected, args[name])


@pytest.mark.parametrize("network", NETWORKS)
def test_check_says_once_that_storage_is_dense(network: str):
    report = nn.check(load(network))
    (note,) = [problem for problem in report.problems if problem.kind == "sparse storage"]
    assert report.ok
    assert note.severity == "note"
    assert "dense here" in note.reason
    assert SPARSE[network] <= {*note.nodes}
    assert "todense()" in str(note.fix)


def test_dense_networks_have_no_such_note():
    net = sym.FullyConnected(sym.Variable("data", stype="default"), num_hidden=2)
    assert not [problem for problem in nn.check(net).problems if problem.kind == "sparse storage"]


# -- operators -------------------------------------------------------------------------------------------------------


def test_they_are_found_where_mxnet_has_them():
    data = sym.Variable("x")
    assert sym.sparse.cast_storage(data, stype="csr").list_arguments() == ["x"]
    assert sym.sparse.retain(data, sym.Variable("i")).list_arguments() == ["x", "i"]
    assert sym.contrib.SparseEmbedding(data, input_dim=3, output_dim=2, name="e").list_arguments() == ["x", "e_weight"]


def test_retained_rows_are_named_in_any_order_and_number():
    net = sym.sparse.retain(sym.Variable("x"), sym.Variable("i"))
    expected = [[1, 0], [0, 0], [3, -4]]
    np.testing.assert_array_equal(run(net, x=X, i=np.array([2, 0, 2, 7, -1], np.float32)), expected)
    np.testing.assert_array_equal(run(net, x=X, i=np.array([1], np.int32)), np.zeros((3, 2)))
    np.testing.assert_array_equal(run(net, x=X, i=np.array([-1], np.int32)), np.zeros((3, 2)))


def test_every_element_is_computed_deviation_of_scatter_operators():
    added = sym._scatter_plus_scalar(sym.Variable("x"), scalar=2.0)
    np.testing.assert_array_equal(run(added, x=X), X + 2)
    (warning,) = [problem for problem in nn.check(added).problems if problem.kind == "difference"]
    assert warning.severity == "warning"
    assert "row_sparse or csr array stores" in warning.reason


def test_sums_of_squares_infer_and_reduce_as_sum_does():
    net = sym._square_sum(sym.Variable("x"), axis=1, keepdims=True)
    assert net.infer_shape(x=(4, 3))[1] == [(4, 1)]
    np.testing.assert_array_equal(run(net, x=X), [[1], [0], [25]])
    np.testing.assert_array_equal(run(sym._square_sum(sym.Variable("x")), x=X), [26])


def test_storage_types_are_those_of_mxnet():
    with pytest.raises(ParamError, match="stype"):
        sym.cast_storage(sym.Variable("x"), stype="coo")  # pyright: ignore[reportArgumentType]
