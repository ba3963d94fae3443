"""expand_dims, squeeze, transpose, SwapAxis, depth_to_space: inference from the result, and refusals."""

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError

X = sym.Variable("x")


@pytest.mark.parametrize(
    ("symbol", "out", "data"),
    [
        (sym.expand_dims(X, axis=1), (2, 1, 3), (2, 3)),
        (sym.expand_dims(X, axis=-1), (2, 3, 1), (2, 3)),
        (sym.transpose(X), (4, 3, 2), (2, 3, 4)),
        (sym.transpose(X, axes=(1, 2, 0)), (3, 4, 2), (2, 3, 4)),
        (sym.SwapAxis(X, dim1=0, dim2=2), (4, 3, 2), (2, 3, 4)),
        (sym.depth_to_space(X, block_size=2), (1, 2, 4, 6), (1, 8, 2, 3)),
        (sym.space_to_depth(X, block_size=2), (1, 8, 2, 3), (1, 2, 4, 6)),
    ],
)
def test_data_is_inferred_from_the_result(symbol, out, data):
    arguments, _, _ = (symbol + sym.Variable("y", shape=out)).infer_shape()
    assert arguments[0] == data


@pytest.mark.parametrize(
    ("symbol", "shape", "words"),
    [
        (sym.expand_dims(X, axis=4, name="n"), (2, 3), ("'axis'", "-3 ≤ axis < 3", "got 4", "'expand_dims'", "'n'")),
        (sym.squeeze(X, axis=1, name="n"), (2, 3), ("cannot select an axis to squeeze out", "axis 1 of (2, 3)")),
        (sym.squeeze(X, axis=(0, -2), name="n"), (1, 3), ("named twice", "'axis'")),
        (sym.transpose(X, axes=(0, 1), name="n"), (2, 3, 4), ("Not a permutation", "'axes'", "3 axes", "(0, 1)")),
        (sym.transpose(X, axes=(0, 0), name="n"), (2, 3), ("named twice", "'axes'")),
        (sym.SwapAxis(X, dim1=0, dim2=3, name="n"), (2, 3), ("'dim2'", "got 3")),
        (sym.depth_to_space(X, block_size=2, name="n"), (1, 6, 2, 2), ("block_size", "multiples of 4", "got 6")),
        (sym.space_to_depth(X, block_size=2, name="n"), (1, 1, 3, 2), ("rows in multiples of 2", "got 3")),
        (sym.space_to_depth(X, block_size=2, name="n"), (4, 4), ("(n, c, h, w)", "(4, 4)")),
    ],
)
def test_impossible_axes_are_named(symbol, shape, words):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(x=shape)
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)
