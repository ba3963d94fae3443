"""unique and nonzero: MXNet's values, and what is said where the values are not known."""

import jax
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import LoweringError

X = sym.Variable("x")


def run(symbol, x):
    with jax.enable_x64(True):
        return lowering.to_jax(symbol)({"x": x})[0]


@pytest.mark.parametrize(
    ("x", "params", "results"),
    [  # MXNet 1.9.1's results
        ([3, 1, 3, 2], {}, [[1, 2, 3]]),
        (
            [3, 1, 3, 2],
            {"return_index": True, "return_inverse": True, "return_counts": True},
            [[1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2]],
        ),
        ([[1, 0], [1, 0], [2, 3]], {"axis": 0, "return_inverse": True}, [[[1, 0], [2, 3]], [0, 0, 1]]),
        (np.zeros((0,)), {}, [[]]),
    ],
)
def test_different_elements(x, params, results):
    outputs = run(sym._npi_unique(X, **params), np.asarray(x, "float32"))
    assert [output.tolist() for output in outputs] == results
    assert [output.dtype for output in outputs] == ["float32", *["int64"] * (len(results) - 1)]


@pytest.mark.parametrize(
    ("x", "indices"),
    [  # MXNet 1.9.1's results
        ([[0, 1], [2, 0]], [[0, 1], [1, 0]]),
        ([0, 0], np.zeros((0, 1))),
        (3, [[0]]),
        ([False, True], [[1]]),
    ],
)
def test_places_of_what_is_not_0(x, indices):
    (found,) = run(sym._npx_nonzero(X), np.asarray(x))
    assert found.dtype == "int64"
    assert found.shape == np.shape(indices)
    assert found.tolist() == np.asarray(indices).tolist()


@pytest.mark.parametrize("symbol", [sym._npi_unique(X, name="op"), sym._npx_nonzero(X, name="op")])
def test_values_that_are_not_known_are_refused_with_what_to_use_instead(symbol):
    with pytest.raises(LoweringError, match=r"'op'.*outside jax\.jit.*Keep the shape instead"):
        jax.jit(lowering.to_jax(symbol))({"x": np.ones(3)})


def test_how_many_there_are_is_unknown_until_it_runs():
    assert sym._npi_unique(X, axis=1).infer_shape_partial(x=(3, 2))[1] == [(3, 0)]
    assert sym._npx_nonzero(X).infer_shape_partial(x=(3, 2))[1] == [(0, 2)]
