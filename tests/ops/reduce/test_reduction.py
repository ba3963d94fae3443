"""Reductions: inference, special values, ties, refusals."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.traced import evaluated

X = sym.Variable("x")


def value(symbol, x):
    (out,), _ = evaluated(lowering.to_jax(symbol), {"x": jnp.asarray(x)})
    return np.asarray(out)


def gradient(symbol, x):
    return np.asarray(evaluated(lowering.grad_fn(symbol), {"x": jnp.asarray(x, jnp.float32)})[1]["x"])


def test_a_full_reduction_has_shape_1():
    assert sym.sum(X).infer_shape(x=(2, 3))[1] == [(1,)]
    assert sym.sum(X).infer_shape_partial()[1] == [(1,)]


def test_kept_dimensions_are_inferred_from_the_result():
    x = sym.Variable("x", shape=(0, 3, 0))
    for params, out in (({"axis": 1}, (2, 4)), ({"axis": 1, "keepdims": True}, (2, 1, 4))):
        assert (sym.sum(x, **params) + sym.Variable("y", shape=out)).infer_shape()[0][0] == (2, 3, 4)


def test_every_tie_receives_the_gradient():
    np.testing.assert_array_equal(gradient(sym.max(X), [3, -2, 3]), [1, 0, 1])
    np.testing.assert_array_equal(gradient(sym.min(X), [3, -2, -2]), [0, 1, 1])


def test_nan_passes_through_max_and_is_left_out_by_nansum_and_nanprod():
    x = [np.nan, -2.0, 3.0]
    assert np.isnan(value(sym.max(X), x))
    assert value(sym.nansum(X), x) == [1]
    assert value(sym.nanprod(X), x) == [-6]
    np.testing.assert_array_equal(gradient(sym.nansum(X), x), [0, 1, 1])
    np.testing.assert_array_equal(gradient(sym.nanprod(X), x), [0, 3, -2])


def test_gradients_at_zero_are_mxnets():
    """prod's and the 2-norm's divide by zero, the 1-norm's takes sign(0) = 0."""
    np.testing.assert_array_equal(gradient(sym.prod(X), [0.0, -2.0]), [np.nan, 0])
    np.testing.assert_array_equal(gradient(sym.norm(X), [0.0, 0.0]), [np.nan, np.nan])
    np.testing.assert_array_equal(gradient(sym.norm(X, ord=1), [0.0, -2.0]), [0, -1])


def test_argmax_keeps_the_dtype_and_takes_the_first_of_equals():
    assert sym.argmax(X, axis=0).infer_type(x="float16")[1] == [np.float16]
    assert value(sym.argmax(X, axis=0), np.array([1, 3, 3], "float32")).tolist() == [1]
    assert value(sym.argmin(X, axis=0), np.array([3, 1, 1], "float32")).tolist() == [1]


def test_the_mean_of_integers_is_truncated_towards_zero():
    assert value(sym.mean(X), np.array([-1, -2, -4], "int32")).tolist() == [-2]


def test_small_integers_are_not_widened():
    assert value(sym.sum(X), np.array([100, 100], "int8")).tolist() == [-56]


@pytest.mark.parametrize(
    ("symbol", "words"),
    [
        (sym.sum(X, axis=2, name="n"), ("'axis'", "-2 ≤ axis < 2", "got 2", "'sum'")),
        (sym.mean(X, axis=(1, -1), name="n"), ("named twice", "(1, -1)")),
        (sym.argmax(X, axis=-3, name="n"), ("'axis'", "got -3")),
    ],
)
def test_impossible_axes_are_named(symbol, words):
    with pytest.raises(InferenceError) as error:
        symbol.infer_shape(x=(2, 3))
    assert all(word in str(error.value) for word in (*words, "'n'")), str(error.value)


def test_norm_supports_orders_1_and_2_only():
    with pytest.raises(ParamError, match="ord"):
        sym.norm(X, ord=3)


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_nan_is_the_largest_and_the_smallest_wherever_it_stands(name: str, dtype: str):
    rng = np.random.default_rng(0)
    for shape, axis in (((4, 8, 10, 10, 3), 1), ((9, 9, 8, 9), 3), ((8, 7, 8, 9, 7), 0)):
        x = rng.normal(size=shape).astype(dtype)
        x.ravel()[rng.choice(x.size, x.size // 20, replace=False)] = np.nan
        net = getattr(sym, name)(sym.Variable("x"), axis=axis)
        for run in (lowering.compile(net), jax.jit(lowering.to_jax(net))):
            np.testing.assert_array_equal(run({"x": x})[0][0], getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize(("data", "other"), [((0, 3, 0), (4, 5)), ((4, 3, 0), (0, 5)), ((4, 3, 5), (0, 0))])
def test_the_shape_of_argmax_channel_says_what_its_data_have(data: tuple[int, ...], other: tuple[int, ...]):
    net = sym.argmax_channel(sym.Variable("x", shape=data)) + sym.Variable("other", shape=other)
    assert net.infer_shape() == ([(4, 3, 5), (4, 5)], [(4, 5)], [])
