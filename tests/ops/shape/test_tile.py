"""broadcast_*, tile, repeat: refusals, and inference from the result."""

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError

X, Y = sym.Variable("x"), sym.Variable("y")


@pytest.mark.parametrize(
    ("symbol", "partial", "out", "data"),
    [
        (lambda x: sym.broadcast_axis(x, axis=1, size=3), None, (2, 3), (2, 1)),
        (lambda x: sym.tile(x, reps=(2, 3)), (0, 2), (4, 6), (2, 2)),
        (lambda x: sym.tile(x, reps=(2, 0)), (0, 3), (4, 0), (2, 3)),
        (lambda x: sym.repeat(x, repeats=3, axis=1), (2, 0), (2, 6), (2, 2)),
    ],
)
def test_data_is_inferred_from_the_result(symbol, partial, out, data):
    x = sym.Variable("x", shape=partial) if partial else X
    arguments, _, _ = (symbol(x) + sym.Variable("y", shape=out)).infer_shape()
    assert arguments[0] == data


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (sym.broadcast_to(X, shape=(2, 4), name="n"), {"x": (1, 3)}, ("cannot be broadcast", "(2, 4)", "(1, 3)")),
        (sym.broadcast_to(X, shape=(2, 3), name="n"), {"x": (3,)}, ("'shape'", "expected 1", "(2, 3)")),
        (sym.broadcast_axis(X, axis=1, size=2, name="n"), {"x": (1, 3)}, ("'axis'", "axis 1 of (1, 3)")),
        (sym.broadcast_like(X, Y, name="n"), {"x": (2, 3), "y": (2, 4)}, ("cannot be broadcast", "(2, 4)")),
        (sym.repeat(X, repeats=2, axis=2, name="n"), {"x": (2, 3)}, ("'axis'", "got 2")),
    ],
)
def test_impossible_broadcasts_are_named(symbol, shapes, words):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sym.broadcast_axis(X, axis=(0, 1), size=2), "the same length"),
        (lambda: sym.broadcast_like(X, Y, lhs_axes=(0, 1), rhs_axes=(0,)), "go in pairs"),
        (lambda: sym.broadcast_like(X, Y, lhs_axes=(), rhs_axes=()), "Empty axes tuple is not allowed"),
        (lambda: sym.tile(X, reps=(-1, 2)), "reps"),
        (lambda: sym.repeat(X, repeats=-1), "repeats"),
    ],
)
def test_bad_parameters_are_refused_when_the_node_is_made(make, words):
    with pytest.raises(ParamError, match=words):
        make()
