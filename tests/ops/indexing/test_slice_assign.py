"""Assignments: MXNet's values where only its imperative functions have them, places outside, refusals."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.cases.indexing.slice_assign import CASES
from tests.support.traced import evaluated

X, Y, I = (sym.Variable(name) for name in "xyi")  # noqa: E741  (indices)
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


def run(symbol, **args):
    return np.asarray(
        evaluated(lowering.to_jax(symbol), {name: jnp.asarray(value) for name, value in args.items()})[0][0]
    )


def test_places_of_the_cases_are_distinct_where_the_gradient_is_the_derivative():
    for case in CASES:
        if case.op in ("_contrib_index_copy", "_scatter_set_nd"):
            places = case.values()[1 if case.op == "_contrib_index_copy" else 2]
            places = places.reshape(-1, places.shape[-1])
            assert (len({*map(tuple, places.T)}) == places.shape[-1]) == (not case.not_derivative)


@pytest.mark.slow("computes much")
def test_scatter_set_nd_as_mxnets_imperative_function():
    symbol = sym._scatter_set_nd(X, Y, I, shape=(3, 4))
    points = run(symbol, x=MATRIX, y=np.array([100, 101], "float32"), i=np.array([[0, 2], [1, 3]], "int32"))
    assert points.tolist() == [[0, 100, 2, 3], [4, 5, 6, 7], [8, 9, 10, 101]]
    rows = run(symbol, x=MATRIX, y=np.full((2, 4), 7, "float32"), i=np.array([[0.0, 2.0]]))
    assert rows.tolist() == [[7] * 4, [4, 5, 6, 7], [7] * 4]


@pytest.mark.slow("computes much")
def test_fill_element_as_mxnets_imperative_function():
    def filled(places):
        return run(sym.fill_element_0index(X, Y, I), x=MATRIX, y=np.array([100, 101, 102], "float32"), i=places)

    expected = [[100, 1, 2, 3], [4, 5, 101, 7], [8, 9, 10, 102]]
    assert filled(np.array([0, 2, 3], "float32")).tolist() == expected
    assert filled(np.array([0, 2, 3], "uint8")).tolist() == expected
    assert filled(np.array([0, 1.9, 3], "float32"))[1].tolist() == [4, 101, 6, 7]
    assert filled(np.array([0, -1, 9]))[1:].tolist() == MATRIX[1:].tolist()


def test_places_outside_are_clipped():
    copied = run(sym._contrib_index_copy(X, I, Y), x=np.zeros(4, "float32"), y=np.ones(2, "float32"), i=[-1, 9])
    assert copied.tolist() == [1, 0, 0, 1]


def test_contiguous_slices_are_updated_in_one_piece_and_none_scatters():
    steps = {"begin": (0, 1), "end": (2, 3)}, {"begin": (None, 3), "end": (None, 0), "step": (2, -1)}
    for params, pieces in zip(steps, (1, 0), strict=True):
        symbol = sym._slice_assign(X, Y, **params)
        rhs = np.ones(run(sym.slice(X, **params), x=MATRIX).shape, "float32")
        text = str(jax.make_jaxpr(lowering.to_jax(symbol))({"x": MATRIX, "y": rhs}))
        assert text.count("dynamic_update_slice") == pieces
        assert "scatter" not in text


def test_shapes_are_inferred_from_what_is_known():
    assert sym._slice_assign(X, Y, begin=(0, 1), end=(2, 3)).infer_shape(x=(3, 4))[0] == [(3, 4), (2, 2)]
    assert sym._contrib_index_copy(X, I, Y).infer_shape(x=(5, 3), i=(2,))[0] == [(5, 3), (2,), (2, 3)]
    assert sym._scatter_set_nd(X, Y, I, shape=(3, 4)).infer_shape(i=(1, 2))[0] == [(3, 4), (2, 4), (1, 2)]
    assert sym.fill_element_0index(X, Y, I).infer_shape(x=(3, 4))[0] == [(3, 4), (3,), (3,)]
    assert sym._contrib_index_copy(X, I, Y).infer_type(x="float16", i="int32")[0] == [np.float16, np.int32, np.float16]


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (
            sym._slice_assign(X, Y, begin=(0, 1), end=(2, 3), name="n"),
            {"x": (3, 4), "y": (1, 2)},
            ("Shape inconsistent", "'rhs'", "(2, 2)"),
        ),
        (
            sym._slice_assign_scalar(X, begin=(0, 0), end=(1, 1), name="n"),
            {"x": (3,)},
            ("'begin'", "at most 1 axes", "(0, 0)"),
        ),
        (sym._contrib_index_copy(X, I, Y, name="n"), {"x": (5, 3), "i": (2,), "y": (3, 3)}, ("Shape inconsistent",)),
        (sym._contrib_index_copy(X, I, Y, name="n"), {"x": (5, 3), "y": (2, 2)}, ("Shape inconsistent", "(2, 3)")),
        (sym._contrib_index_copy(X, I, Y, name="n"), {"x": (2, 3), "y": (3, 3)}, ("'new_tensor'", "at most 2 rows")),
        (sym._scatter_set_nd(X, Y, I, shape=(3, 4), name="n"), {"x": (5, 4)}, ("Shape inconsistent", "(3, 4)")),
        (sym._scatter_set_nd(X, Y, I, shape=(3,), name="n"), {"i": (2, 4)}, ("'indices'", "at most 1 rows", "got 2")),
        (
            sym.fill_element_0index(X, Y, I, name="n"),
            {"x": (3, 4, 2)},
            ("The data must be a matrix", "'lhs'", "(3, 4, 2)"),
        ),
        (sym.fill_element_0index(X, Y, I, name="n"), {"x": (3, 4), "y": (2,)}, ("Shape inconsistent", "'mhs'")),
    ],
)
def test_what_does_not_fit_is_named(symbol, shapes, words):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)


def test_slices_that_mean_nothing_are_refused():
    with pytest.raises(ParamError, match="need the same length"):
        sym._slice_assign(X, Y, begin=(0,), end=(1, 2))
    with pytest.raises(ParamError, match="step cannot be 0"):
        sym._slice_assign_scalar(X, begin=(0,), end=(1,), step=(0,))
