"""slice, slice_axis, slice_like, Pad: inference from the result, empty and impossible pieces."""

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError

X, Y = sym.Variable("x"), sym.Variable("y")


def test_axes_that_are_not_cut_are_known_from_the_result():
    cut = sym.slice_axis(sym.Variable("x", shape=(4, 0)), axis=0, begin=1, end=3) + sym.Variable("y", shape=(2, 5))
    assert cut.infer_shape()[0][0] == (4, 5)
    cut = sym.slice(sym.Variable("x", shape=(4, 0)), begin=(1,), end=(3,)) + sym.Variable("y", shape=(2, 5))
    assert cut.infer_shape()[0][0] == (4, 5)


def test_padded_data_is_inferred_from_the_result():
    padded = sym.Pad(X, mode="constant", pad_width=(0, 0, 0, 0, 1, 2, 0, 3)) + sym.Variable("y", shape=(1, 2, 6, 7))
    assert padded.infer_shape()[0][0] == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (sym.slice_axis(X, axis=1, begin=0, end=7, name="n"), {"x": (2, 3)}, ("length 3", "begin=0, end=7")),
        (sym.slice_axis(X, axis=1, begin=2, end=2, name="n"), {"x": (2, 3)}, ("begin < end", "begin=2, end=2")),
        (sym.slice_axis(X, axis=2, begin=0, end=1, name="n"), {"x": (2, 3)}, ("'axis'", "got 2")),
        (sym.slice(X, begin=(0, 0, 0), end=(1, 1, 1), name="n"), {"x": (2, 3)}, ("too many axes", "at most 2")),
        (sym.slice_like(X, Y, name="n"), {"x": (2, 3), "y": (2, 4)}, ("'shape_like'", "at most 3", "got 4")),
        (sym.slice_like(X, Y, name="n"), {"x": (2, 3), "y": (2,)}, ("different rank", "Pass axes=")),
        (sym.slice_like(X, Y, axes=-1, name="n"), {"x": (2, 3, 4), "y": (2, 3)}, ("no axis 2", "from the end of data")),
        (sym.reverse(X, axis=2, name="n"), {"x": (2, 3)}, ("'axis'", "got 2")),
        (sym.Pad(X, mode="edge", pad_width=(1, 1), name="n"), {"x": (2, 3)}, ("'pad_width'", "expected 4")),
        (sym.Pad(X, mode="reflect", pad_width=(2, 0), name="n"), {"x": (2,)}, ("mirror", "'pad_width'", "(2, 0)")),
    ],
)
def test_impossible_pieces_are_named(symbol, shapes, words):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"begin": (0,), "end": (1, 2)}, "the same length"),
        ({"begin": (0,), "end": (1,), "step": (0,)}, "step cannot be 0"),
        ({"begin": (0,)}, "end"),
    ],
)
def test_bad_slices_are_refused_when_the_node_is_made(params, words):
    with pytest.raises(ParamError, match=words):
        sym.slice(X, **params)


def test_crop_is_an_alias_of_slice():
    assert sym.crop(X, begin=(0,), end=(1,), name="n").infer_shape(x=(2, 3))[1] == [(1, 3)]
