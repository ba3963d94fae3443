"""Reshape, Flatten, reshape_like: inference in both directions, impossible shapes, spellings."""

import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

X = sym.Variable("x")


def inferred(symbol, **shapes):
    """(argument shapes, output shapes), unknown ones as MXNet writes them."""
    arguments, outputs, _ = symbol.infer_shape_partial(**shapes)
    return arguments, outputs


def test_target_is_another_spelling_of_shape():
    assert sym.reshape(X, target=(2, 4)).infer_shape(x=(8,))[1] == [(2, 4)]
    assert sym.reshape(X, target=(2, 4), name="r").list_attr()["shape"] == "(2, 4)"


@pytest.mark.parametrize(
    ("params", "partial", "out"),
    [
        ({"shape": (4, 6)}, (2, 0, 4), (4, 6)),
        ({"shape": (0, -1)}, (0, 3), (5, 3)),
        ({"shape": (-3, 0)}, (2, 0, 4), (6, 4)),
        ({"shape": (-4, 2, -1, 0)}, (0, 5), (2, 3, 5)),
        ({"shape": (-1, 0), "reverse": True}, (6, 0), (6, 4)),
        ({"shape": (-2,)}, (0, 3), (2, 3)),
    ],
)
def test_reshape_infers_data_from_the_result(params, partial, out):
    data = sym.Variable("x", shape=partial)
    other = sym.Variable("y", shape=out)
    arguments, _, _ = (sym.Reshape(data, **params) + other).infer_shape()
    assert None not in arguments
    assert np.prod(arguments[0]) == np.prod(out)
    assert [a or d for a, d in zip(partial, arguments[0], strict=True)] == list(arguments[0])


def test_reshape_knows_what_it_can_without_data():
    assert inferred(sym.Reshape(X, shape=(2, 4)))[1] == [(2, 4)]
    assert inferred(sym.Reshape(X, shape=(2, -1, 4)))[1] == [(2, 0, 4)]


@pytest.mark.parametrize(
    ("params", "shape", "words"),
    [
        ({"shape": (5, 5)}, (2, 3), ("number of elements", "(2, 3)", "(5, 5)", "Reshape", "'r'")),
        ({"shape": (4, -1)}, (2, 3), ("number of elements", "(4, ?)", "Reshape", "'r'")),
        ({"shape": (0, 0, 0)}, (2, 3), ("Code 0", "'shape'", "Reshape", "'r'")),
        ({"shape": (-3, -3)}, (2, 3, 4), ("Code -3", "'shape'")),
        ({"shape": (-4, 4, -1, 0)}, (6, 2), ("number of elements", "(4, ?)")),
    ],
)
def test_reshape_to_another_size_is_an_error(params, shape, words):
    with pytest.raises(InferenceError) as error:
        sym.Reshape(X, name="r", **params).infer_shape(x=shape)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((-1, -1), "One and only one dim can be inferred"),
        ((-5,), "codes 0 to -4, got -5"),
        ((-4, -1, -1), "one of them may be -1"),
        ((2, -4, 3), "needs two sizes after it"),
        ((), "neither is target_shape"),
    ],
)
def test_malformed_codes_are_refused_when_the_node_is_made(shape, words):
    with pytest.raises(ParamError, match=words):
        sym.Reshape(X, shape=shape)


def test_flatten_infers_both_ways():
    assert inferred(sym.Flatten(X), x=(0, 3, 4)) == ([(0, 3, 4)], [(0, 12)])
    both = sym.Flatten(sym.Variable("x", shape=(0, 3, 4))) + sym.Variable("y", shape=(5, 12))
    assert both.infer_shape()[0] == [(5, 3, 4), (5, 12)]


def test_reshape_like_infers_one_unknown_dimension_of_either():
    y = sym.Variable("y")
    assert inferred(sym.reshape_like(X, y), x=(2, 0), y=(4, 3)) == ([(2, 6), (4, 3)], [(4, 3)])
    assert inferred(sym.reshape_like(X, y), x=(2, 6), y=(4, 0)) == ([(2, 6), (4, 3)], [(4, 3)])


def test_reshape_like_leaves_the_other_dtype_free():
    assert sym.reshape_like(X, sym.Variable("y")).infer_type(x="float16", y="int32")[1] == [np.float16]


def test_reshape_like_of_other_sizes_is_an_error():
    symbol = sym.reshape_like(X, sym.Variable("y"), name="r")
    with pytest.raises(InferenceError, match="number of elements would change.*'reshape_like'.*'r'"):
        symbol.infer_shape(x=(2, 3), y=(2, 4))
    ranged = sym.reshape_like(X, sym.Variable("y"), name="r", lhs_begin=2, lhs_end=1)
    with pytest.raises(InferenceError, match="No such range of axes.*lhs_begin, lhs_end"):
        ranged.infer_shape(x=(2, 3), y=(2, 3))


def test_reshape_does_not_copy_on_the_way_back():
    """The backward graph holds one reshape and no arithmetic."""
    grad = sym.Reshape(X, shape=(-1,)).gradient(["x"], head_grads=[sym.Variable("head")])
    text = str(grad.debug_str())
    assert text.count("Op:") == 1
    assert "reshape_like" in text


def test_shape_array_is_a_constant_of_64_bits():
    symbol = sym.shape_array(X)
    assert symbol.infer_type(x="float16")[1] == [np.int64]
    (shape,), _ = evaluated(lowering.to_jax(symbol), {"x": jnp.zeros((2, 5))})
    assert shape.tolist() == [2, 5]
