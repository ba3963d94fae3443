"""diag: NumPy's diagonals, what is inferred, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError
from tests.support.traced import evaluated

X = sym.Variable("x")


def run(symbol, x):
    return np.asarray(evaluated(lowering.to_jax(symbol), {"x": jnp.asarray(x)})[0][0])


@pytest.mark.parametrize("k", [-2, -1, 0, 1, 2])
def test_diagonals_are_numpys(k):
    data = np.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32")
    for axis1, axis2 in ((0, 1), (1, 2), (2, 1), (-1, 0)):
        assert (run(sym.diag(X, k=k, axis1=axis1, axis2=axis2), data) == np.diagonal(data, k, axis1, axis2)).all()
    assert (run(sym.diag(X, k=k), data[0, 0]) == np.diag(data[0, 0], k)).all()


def test_sides_of_the_matrix_follow_from_the_vector_and_back():
    symbol = sym.diag(sym.Variable("x", shape=(0,)), k=-2, name="d")
    assert symbol.infer_shape(x=(3,))[1] == [(5, 5)]
    assert (symbol + sym.Variable("y")).infer_shape(y=(5, 5))[0] == [(3,), (5, 5)]
    assert sym.diag(X, axis1=2, axis2=0).infer_shape(x=(2, 3, 4))[1] == [(3, 2)]


@pytest.mark.parametrize(
    ("params", "shape", "words"),
    [
        ({"k": 5}, (3, 4), ("'k'", "-3 ≤ k ≤ 4", "got 5")),
        ({"k": -4}, (3, 4), ("'k'", "-3 ≤ k ≤ 4", "got -4")),
        ({"axis1": 1}, (3, 4, 5), ("named twice", "axis1, axis2", "(1, 1)")),
        ({"axis2": 3}, (3, 4, 5), ("no such axis", "axis1, axis2", "got 3")),
        ({"axis2": 2}, (3, 4), ("no such axis", "got 2")),
    ],
)
def test_diagonals_that_are_not_there_are_refused(params, shape, words):
    with pytest.raises(InferenceError) as error:
        sym.diag(X, **params, name="d").infer_shape(x=shape)
    assert all(word in str(error.value) for word in (*words, "'diag'", "'d'")), str(error.value)


def test_neither_gathers_nor_scatters():
    for symbol in (sym.diag(X, k=1), sym.diag(X, k=1).gradient(["x"])):
        text = str(jax.make_jaxpr(lowering.to_jax(symbol))({"x": jnp.ones((4, 5))}))
        assert "gather" not in text
        assert "scatter" not in text
