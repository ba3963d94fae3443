"""Embedding, pick, take, gather_nd: inference, indices outside, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

X, I = sym.Variable("x"), sym.Variable("i")  # noqa: E741  (indices)


def run(symbol, **args):
    return np.asarray(evaluated(lowering.to_jax(symbol), {k: jnp.asarray(v) for k, v in args.items()})[0][0]).tolist()


def test_embedding_knows_its_weight_without_data():
    symbol = sym.Embedding(data=I, input_dim=5, output_dim=3, name="e")
    arguments, outputs, _ = symbol.infer_shape(i=(2, 4))
    assert (arguments, outputs) == ([(2, 4), (5, 3)], [(2, 4, 3)])
    assert (symbol + sym.Variable("y", shape=(7, 3))).infer_shape()[0][0] == (7,)


def test_embedding_takes_the_dtype_of_its_weight_before_its_own():
    symbol = sym.Embedding(I, X, input_dim=5, output_dim=3, dtype="float16")
    assert symbol.infer_type(i="int32")[0] == [np.int32, np.float16]
    assert symbol.infer_type(i="int32", x="float64")[1] == [np.float64]


def test_embedding_gives_its_numbers_a_zero_gradient():
    symbol = sym.Embedding(I, X, input_dim=3, output_dim=1)
    args = {"i": jnp.array([0.0, 2.0, 2.0]), "x": jnp.ones((3, 1))}
    _, grads, _ = evaluated(lowering.grad_fn(symbol, ["i", "x"]), args, head_grads=[jnp.ones((3, 1))])
    assert grads["i"].tolist() == [0, 0, 0]
    assert grads["x"].tolist() == [[1], [0], [2]]


def test_embedding_of_a_wrong_weight_is_an_error():
    with pytest.raises(InferenceError, match="Shape inconsistent.*'Embedding'.*'e'.*'weight'"):
        sym.Embedding(I, X, input_dim=5, output_dim=3, name="e").infer_shape(i=(2,), x=(4, 3))


def test_indices_outside_are_clipped_or_wrapped():
    x = np.array([10, 11, 12], "float32")
    assert run(sym.take(X, I), x=x, i=np.array([-1.5, 0.9, 7], "float32")) == [10, 10, 12]
    assert run(sym.take(X, I, mode="wrap"), x=x, i=np.array([-1, 4], "int32")) == [12, 11]
    assert run(sym.pick(X, I), x=x[None], i=np.array([9], "float32")) == [12]
    assert run(sym.one_hot(I, depth=2), i=np.array([-1, 1, 2], "float32")) == [[0, 0], [0, 1], [0, 0]]


def test_small_index_types_reach_long_axes():
    assert run(sym.one_hot(I, depth=300), i=np.array([5], "uint8"))[0].count(1) == 1
    assert run(sym.take(X, I, mode="wrap"), x=np.arange(300, dtype=np.float32), i=np.array([-1], "int8")) == [299]


@pytest.mark.parametrize(
    ("symbol", "shapes", "words"),
    [
        (sym.take(X, I, axis=2, name="n"), {"x": (2, 3), "i": (4,)}, ("'axis'", "got 2", "'take'")),
        (sym.pick(X, I, axis=2, name="n"), {"x": (2, 3), "i": (2,)}, ("'axis'", "got 2")),
        (sym.pick(X, I, name="n"), {"x": (2, 3), "i": (3,)}, ("Shape inconsistent", "'index'")),
        (sym.gather_nd(X, I, name="n"), {"x": (2, 3), "i": (3, 5)}, ("'indices'", "at most 2 rows", "got 3")),
        (sym.batch_take(X, I, name="n"), {"x": (2, 3, 4), "i": (2,)}, ("The data must be a matrix", "(2, 3, 4)")),
    ],
)
def test_what_does_not_fit_is_named(symbol, shapes, words):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(**shapes)
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)


def test_pick_needs_an_axis():
    with pytest.raises(ParamError, match="axis=None is not supported by pick"):
        sym.pick(X, I, axis=None)


def test_a_scatter_and_a_gather_are_not_spread_over_many_instructions():
    """The weight's gradient is one scatter; nothing one-hot, nothing of vocabulary times batch."""
    symbol = sym.Embedding(I, X, input_dim=50, output_dim=4)
    args = {"i": jnp.zeros(7, jnp.int32), "x": jnp.ones((50, 4))}
    heads = [jnp.ones((7, 4))]
    grad = lowering.grad_fn(symbol, ["x"])
    text = str(jax.make_jaxpr(lambda a: grad(a, head_grads=heads)[1])(args))
    assert text.count("scatter-add[") == 1
    assert "dot_general" not in text


def test_an_element_of_all_axes_needs_indices_of_two_axes():
    """As in MXNet, whose arrays have an axis."""
    made = sym.gather_nd(sym.Variable("x"), sym.Variable("i"))
    with pytest.raises(InferenceError, match="An element without axes.*'indices'"):
        made.infer_shape(x=(2, 3), i=(2,))
    assert made.infer_shape(x=(2, 3), i=(2, 1))[1] == [(1,)]


@pytest.mark.parametrize(("on", "off", "result"), [(300.5, -1.9, [255, 44]), (-1, 1e10, [0, 255])])
def test_values_of_one_hot_wrap_as_mxnets(on: float, off: float, result: list[int]):
    assert run(sym.one_hot(I, depth=2, on_value=on, off_value=off, dtype="uint8"), i=np.array([1.0])) == [result]
