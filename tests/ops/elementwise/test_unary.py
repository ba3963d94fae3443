"""Functions of one array: special values, inference, errors."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ops.elementwise.unary import FUNCTIONS
from tests.support.traced import evaluated

INF, NAN = np.inf, np.nan
SPECIAL = [-INF, -2.5, -0.5, 0.0, 0.5, 2.5, INF, NAN]

# Values of MXNet 1.9.1 at SPECIAL.
VALUES = {
    "rint": [-INF, -3, -1, 0, 0, 2, INF, NAN],
    "round": [-INF, -3, -1, 0, 1, 3, INF, NAN],
    "fix": [-INF, -2, 0, 0, 0, 2, INF, NAN],
    "trunc": [-INF, -2, 0, 0, 0, 2, INF, NAN],
    "floor": [-INF, -3, -1, 0, 0, 2, INF, NAN],
    "ceil": [-INF, -2, 0, 0, 1, 3, INF, NAN],
    "relu": [0, 0, 0, 0, 0.5, 2.5, INF, NAN],
    "logical_not": [0, 0, 0, 1, 0, 0, 0, 0],
    "softsign": [NAN, -0.71428573, -0.33333334, 0, 0.33333334, 0.71428573, NAN, NAN],
    "sigmoid": [0, 0.07585818, 0.37754068, 0.5, 0.62245935, 0.9241418, 1, NAN],
    "rsqrt": [NAN, NAN, NAN, INF, 1.4142135, 0.6324555, 0, NAN],
    "reciprocal": [0, -0.4, -2, INF, 2, 0.4, 0, NAN],
    "log": [NAN, NAN, NAN, -INF, -0.6931472, 0.9162907, INF, NAN],
    "expm1": [-1, -0.917915, -0.39346933, 0, 0.6487213, 11.182494, INF, NAN],
    "erfinv": [NAN, NAN, -0.4769363, 0, 0.4769363, NAN, NAN, NAN],
    "gammaln": [INF, -0.056243714, 1.2655121, INF, 0.57236494, 0.28468287, INF, NAN],
    "gamma": [NAN, -0.9453086, -3.5449077, INF, 1.7724539, 1.3293403, INF, NAN],
}


def value(symbol, **arrays):
    return evaluated(lowering.to_jax(symbol), arrays)[0][0]


def gradient(symbol, x):
    head = np.ones_like(x)
    return evaluated(lowering.grad_fn(symbol, ["x"]), {"x": x}, head_grads=[head])[1]["x"]


@pytest.mark.parametrize("op", VALUES)
def test_special_values(op: str):
    got = value(getattr(sym, op)(sym.Variable("x")), x=np.array(SPECIAL, np.float32))
    np.testing.assert_allclose(got, VALUES[op], rtol=1e-5)


def test_rint_of_numbers_without_a_fraction():
    large = np.array([8388609.0, -8388609.0, 16777216.0], np.float32)
    np.testing.assert_array_equal(value(sym.rint(sym.Variable("x")), x=large), large)


def test_relu_gradient_at_zero_is_zero():
    x = np.array([-1.0, 0.0, 1.0], np.float32)
    np.testing.assert_array_equal(gradient(sym.relu(sym.Variable("x")), x), [0, 0, 1])


def test_clip_passes_the_gradient_at_its_bounds():
    x = np.array([-1.5, -1.0, 0.0, 2.0, 2.5, INF], np.float32)
    np.testing.assert_array_equal(gradient(sym.clip(sym.Variable("x"), -1, 2), x), [0, 1, 1, 1, 0, 0])


def test_clip_bounds_are_checked():
    with pytest.raises(ParamError, match="a_min must not exceed a_max, got a_min=2 and a_max=1.*'clip'"):
        sym.clip(sym.Variable("x"), a_min=2, a_max=1)
    with pytest.raises(ParamError, match="Required parameter a_max of float is not presented"):
        sym.clip(sym.Variable("x"), a_min=2)


def test_hard_sigmoid_takes_floating_point_data_only():
    symbol = sym.hard_sigmoid(sym.Variable("x"), name="gate")
    with pytest.raises(InferenceError, match="(?s)gate.*expected a floating-point dtype; got int32"):
        symbol.infer_type(x="int32")


def test_unknown_dtype_of_a_cast():
    with pytest.raises(ParamError, match="Invalid Parameter format for dtype"):
        sym.Cast(sym.Variable("x"), dtype="complex64")


def test_cast_says_nothing_about_its_input():
    symbol = sym.Cast(sym.Variable("x"), dtype="float16")
    assert symbol.infer_type(x="int32")[1] == [np.float16]
    assert symbol.infer_shape_partial()[0] == [()]
    assert (symbol + sym.Variable("y")).infer_shape(y=(2, 3))[0] == [(2, 3), (2, 3)]


def test_cast_gradient_passes_through_integers():
    symbol = sym.Cast(sym.Cast(sym.Variable("x"), dtype="int32"), dtype="float32")
    head = np.array([0.6, 1.5, -2.7], np.float32)
    values = np.array([-0.6, 0, 1.7], np.float32)
    _, grads, _ = evaluated(lowering.grad_fn(symbol, ["x"]), {"x": values}, head_grads=[head])
    np.testing.assert_array_equal(grads["x"], [0, 1, -2])


def test_shapes_are_inferred_backward():
    x, y = sym.Variable("x"), sym.Variable("y")
    symbol = sym.exp(sym.clip(x, 0, 1)) + y
    assert symbol.infer_shape(y=(2, 3))[0] == [(2, 3), (2, 3)]
    assert symbol.infer_shape(x=(2, 0), y=(0, 3))[0] == [(2, 3), (2, 3)]


def test_identity_with_attr_like_rhs_gives_shape_and_dtype():
    x, y = sym.Variable("x"), sym.Variable("y")
    symbol = sym._identity_with_attr_like_rhs(x, y)
    assert symbol.infer_shape(y=(2, 3))[0] == [(2, 3), (2, 3)]
    assert symbol.infer_type(y="float16")[0] == [np.float16, np.float16]


@pytest.mark.parametrize("op", ["BlockGrad", "stop_gradient", "sign", "floor"])
def test_nothing_flows(op: str):
    x = np.array([0.3, -1.2], np.float32)
    symbol = getattr(sym, op)(sym.Variable("x"))
    np.testing.assert_array_equal(gradient(symbol, x), [0, 0])
    function = lowering.to_jax(symbol)
    np.testing.assert_array_equal(jax.grad(lambda v: jnp.sum(function({"x": v})[0][0]))(x), [0, 0])


@pytest.mark.slow("compiles")
def test_gradients_at_the_poles_of_gamma_are_mxnets():
    """Of MXNet 1.9.1 at 0, -0, -1 and 1."""
    x = np.array([0.0, -0.0, -1.0, 1.0], np.float32)
    gammaln, gamma = (
        evaluated(lowering.grad_fn(sym.make_loss(function(sym.Variable("x"))), ["x"]), {"x": x}, {})[1]["x"]
        for function in (sym.gammaln, sym.gamma)
    )
    np.testing.assert_allclose(gammaln, [np.inf, np.inf, np.inf, -0.5772157], rtol=1e-5)
    np.testing.assert_allclose(gamma, [np.inf, -np.inf, np.nan, -0.5772157], rtol=1e-5)


@pytest.mark.slow("computes much")
@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_polygamma_everywhere(n: int):
    x = np.array([-3.3, -1.6, -0.2, 0.3, 1.7, 6.0])
    with jax.enable_x64(True):
        got = value(sym._polygamma(sym.Variable("x"), n=n), x=x)
    # SciPy reflects only the digamma function: the recurrence gives the others.
    expected = special.polygamma(n, x + 4)
    if n:
        steps = x[:, None] + np.arange(4)
        expected -= (-1.0) ** n * special.factorial(n) * np.sum(steps ** -(n + 1.0), axis=1)
    else:
        expected = special.digamma(x)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.slow("computes much")
def test_integers_stay_integers():
    x = np.array([0, 1, 4, 9], np.int32)
    for op in ("sqrt", "square", "negative", "floor", "relu"):
        assert value(getattr(sym, op)(sym.Variable("x")), x=x).dtype == np.int32


@pytest.mark.nightly("every operator", but_one_in=4)
@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("op", [name for name, _, _ in FUNCTIONS])
@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float16])
def test_half_precision_is_kept(op: str, dtype):
    x = jnp.full((3,), 1.0 if op == "arccosh" else 0.5, dtype)
    symbol = getattr(sym, op)(sym.Variable("x"))
    assert value(symbol, x=x).dtype == dtype
    assert evaluated(lowering.grad_fn(symbol, ["x"]), {"x": x}, head_grads=[x])[1]["x"].dtype == dtype


def test_sparse_names_are_the_dense_operators():
    assert Op.get("_sparse_tanh") is Op.get("tanh")
    assert Op.get("_sparse_stop_gradient") is Op.get("BlockGrad")
    assert not Op.exists("_sparse_erf")


def test_smooth_l1_without_a_scalar_is_that_of_1():
    x = sym.Variable("x")
    args = {"x": jnp.array([-2.0, -0.5, 0.3, 2.0])}
    (ours,), (expected,) = (
        evaluated(lowering.to_jax(s), args)[0] for s in (sym.smooth_l1(x), sym.smooth_l1(x, scalar=1.0))
    )
    assert ours.tolist() == expected.tolist()
