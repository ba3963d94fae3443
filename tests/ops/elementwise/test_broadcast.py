"""Functions of two broadcast arrays, and where: shapes in both directions, errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.register import NoParams
from symjax_nnvm.ops.elementwise.broadcast import broadcast_shapes
from tests.support.traced import evaluated


@pytest.mark.parametrize(
    ("lhs", "rhs", "out", "expected"),
    [
        # forward
        ((2, 3), (1, 3), None, [(2, 3), (1, 3), (2, 3)]),
        ((2, 3), (3,), None, [(2, 3), (3,), (2, 3)]),
        ((3, 1), (2, 1, 4), None, [(3, 1), (2, 1, 4), (2, 3, 4)]),
        # one unknown dimension: 1 or that of the other
        ((2, None), (2, 3), None, [(2, None), (2, 3), (2, 3)]),
        ((2, None), (2, 1), None, [(2, None), (2, 1), (2, None)]),
        # backward: what the result is where the other is 1, and 1 where the result is 1
        ((2, None), (2, 1), (2, 5), [(2, 5), (2, 1), (2, 5)]),
        ((2, None), (2, None), (2, 1), [(2, 1), (2, 1), (2, 1)]),
        ((2, None), (2, 5), (2, 5), [(2, None), (2, 5), (2, 5)]),
        ((None,), (2, 1), (2, 5), [(5,), (2, 1), (2, 5)]),
        # nothing can be said of an operand of unknown rank
        ((2, 3), None, (2, 3), [(2, 3), None, (2, 3)]),
    ],
)
def test_shapes(lhs, rhs, out, expected):
    ins, outs = broadcast_shapes(NoParams(), [lhs, rhs], [out])
    assert [*ins, *outs] == expected


_SHAPE = st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=4).map(tuple)


@given(_SHAPE, _SHAPE)
def test_shapes_are_numpys(lhs, rhs):
    try:
        expected = np.broadcast_shapes(lhs, rhs)
    except ValueError:
        with pytest.raises(InferenceError):
            broadcast_shapes(NoParams(), [lhs, rhs], [None])
    else:
        assert list(broadcast_shapes(NoParams(), [lhs, rhs], [None])[1]) == [expected]


def test_shapes_that_cannot_be_broadcast():
    symbol = sym.broadcast_mul(sym.Variable("x"), sym.Variable("y"), name="scaled")
    with pytest.raises(InferenceError, match=r"(?s)scaled.*shapes \(2, 3\) \(4,\).*equal or 1.*broadcast_mul"):
        symbol.infer_shape(x=(2, 3), y=(4,))


def test_gradients_have_the_operands_shapes():
    symbol = sym.broadcast_sub(sym.Variable("x"), sym.Variable("y"))
    args = {"x": np.zeros((2, 1), np.float32), "y": np.zeros(3, np.float32)}
    _, grads, _ = evaluated(lowering.grad_fn(symbol), args, head_grads=[np.ones((2, 3), np.float32)])
    assert grads["x"].tolist() == [[3], [3]]
    assert grads["y"].tolist() == [-2, -2, -2]


def where(condition, x, y):
    names = ("condition", "x", "y")
    symbol = sym.where(*map(sym.Variable, names), name="chosen")
    return evaluated(lowering.to_jax(symbol), dict(zip(names, (condition, x, y), strict=True)))[0][0]


def test_where_condition_is_anything_but_zero():
    condition = np.array([np.nan, -0.0, 1, 0, -3], np.float32)
    assert where(condition, np.ones(5, np.float32), np.zeros(5, np.float32)).tolist() == [1, 0, 1, 0, 1]


def test_where_with_one_axis_chooses_rows():
    x, y = np.ones((3, 2), np.int32), np.zeros((3, 2), np.int32)
    assert where(np.array([True, False, True]), x, y).tolist() == [[1, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("known", "shapes"),
    [
        ({"condition": (2,), "x": (0, 3)}, [(2,), (2, 3), (2, 3)]),
        ({"condition": (0,), "y": (2, 3)}, [(2,), (2, 3), (2, 3)]),
        ({"condition": (2, 3), "x": (0, 3)}, [(2, 3), (2, 3), (2, 3)]),
        ({"condition": (0, 3), "x": (2, 0), "y": (0, 0)}, [(2, 3), (2, 3), (2, 3)]),
        ({"condition": (0,), "x": (4,)}, [(4,), (4,), (4,)]),
    ],
)
def test_where_shapes(known, shapes):
    symbol = sym.where(sym.Variable("condition"), sym.Variable("x"), sym.Variable("y"))
    assert symbol.infer_shape(**known) == (shapes, [shapes[1]], [])


@pytest.mark.parametrize("condition", [(3,), (2, 1), (1, 3), (2, 3, 1)])
def test_where_does_not_broadcast(condition):
    symbol = sym.where(sym.Variable("condition"), sym.Variable("x"), sym.Variable("y"), name="chosen")
    with pytest.raises(InferenceError, match="(?s)chosen.*where"):
        symbol.infer_shape(condition=condition, x=(2, 3))


def test_where_dtypes():
    symbol = sym.where(sym.Variable("condition"), sym.Variable("x"), sym.Variable("y"))
    assert symbol.infer_type(condition="int32", y="float16")[0] == [np.int32, np.float16, np.float16]


def test_where_condition_gets_zeros():
    symbol = sym.where(sym.Variable("c"), sym.Variable("x"), sym.Variable("y"))
    args = {
        "c": np.array([1, 0], np.float32),
        "x": np.array([2, np.inf], np.float32),
        "y": np.array([np.nan, 4], np.float32),
    }
    _, grads, _ = evaluated(lowering.grad_fn(symbol), args, head_grads=[np.ones(2, np.float32)])
    assert {name: grad.tolist() for name, grad in grads.items()} == {"c": [0, 0], "x": [1, 0], "y": [0, 1]}
