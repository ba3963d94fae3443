"""Concat, stack, split: inference of missing pieces, and refusals."""

import pytest

from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError

X, Y = sym.Variable("x"), sym.Variable("y")


def with_result(symbol, shape):
    return sym.Group([symbol + sym.Variable("z", shape=shape)])


def test_concat_infers_common_dimensions_from_any_input():
    arguments, outputs, _ = sym.Concat(X, Y, dim=1).infer_shape_partial(x=(2, 3), y=(0, 4))
    assert (arguments, outputs) == ([(2, 3), (2, 4)], [(2, 7)])


def test_concat_infers_the_one_missing_length_from_the_result():
    arguments, _, _ = with_result(sym.Concat(X, Y, dim=0), (5, 2)).infer_shape_partial(x=(3, 2))
    assert arguments[1] == (2, 2)


def test_stack_and_split_infer_from_the_result():
    assert with_result(sym.stack(X, Y, axis=1), (3, 2)).infer_shape_partial()[0][:2] == [(3,), (3,)]
    parts = sym.split(X, num_outputs=2, axis=1)
    total = sym.Group([parts[0] + sym.Variable("a", shape=(2, 3)), parts[1] + sym.Variable("b", shape=(2, 3))])
    assert total.infer_shape_partial()[0][0] == (2, 6)


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (sym.Concat(X, Y, dim=0, name="n"), {"x": (2, 3), "y": (2, 4)}, ("Shape inconsistent", "'arg1'")),
        (sym.Concat(X, Y, dim=2, name="n"), {"x": (2, 3), "y": (2, 3)}, ("'dim'", "got 2")),
        (sym.stack(X, Y, name="n"), {"x": (2, 3), "y": (2, 4)}, ("Shape inconsistent", "'arg1'")),
        (sym.split(X, num_outputs=2, name="n"), {"x": (2, 3)}, ("'num_outputs'", "divisor of 3", "got 2")),
        (
            sym.split(X, num_outputs=2, squeeze_axis=True, name="n"),
            {"x": (2, 4)},
            ("'squeeze_axis'", "as many parts as the 4 elements"),
        ),
    ],
)
def test_what_does_not_fit_together_is_named(symbol, shapes, words):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)


def test_a_union_shorter_than_its_parts_is_an_error():
    """Once its parts are known; what a reader asks of a union with an unknown part is a guess."""
    net = with_result(sym.Concat(X, Y, dim=0, name="n"), (3, 2))
    assert net.infer_shape_partial(x=(3, 2))[0][1] == (0, 2)
    with pytest.raises(InferenceError):
        net.infer_shape(x=(3, 2), y=(1, 2))


def test_split_needs_at_least_one_part():
    with pytest.raises(ParamError, match="num_outputs"):
        sym.split(X, num_outputs=0)


def test_a_part_that_nobody_uses_gets_zeros():
    assert sym.split(X, num_outputs=3, axis=0)[0].gradient(["x"]).infer_shape(x=(6, 2))[1] == [(6, 2)]


@pytest.mark.parametrize(("axis", "shape"), [(0, (2, 4, 5)), (1, (4, 2, 5)), (-1, (4, 5, 2))])
def test_parts_without_their_axis_tell_the_whole(axis: int, shape: tuple[int, ...]):
    parts = sym.split(X, num_outputs=2, axis=axis, squeeze_axis=True)
    known = sym.Group([parts[i] + sym.Variable(f"z{i}", shape=(4, 5)) for i in range(2)])
    assert known.infer_shape_partial()[0][0] == shape
