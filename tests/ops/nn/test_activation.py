"""Activation and LeakyReLU: special values, slopes learned and random, refusals."""

# Some calls are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, LoweringError, ParamError
from tests.support.refusals import refused
from tests.support.traced import evaluated

DATA = sym.Variable("data")
KEY = jax.random.key(3)


def leaky(**params: Any) -> sym.Symbol:
    return sym.LeakyReLU(DATA, name="act", **params)


def value_and_gradient(net: sym.Symbol, data: list[float], **args: Any) -> tuple[np.ndarray, np.ndarray]:
    values = {"data": np.asarray(data, np.float32), **args}
    heads = [np.ones(len(data), np.float32)]
    (out,), grads, _ = evaluated(lowering.grad_fn(net), values, head_grads=heads)
    return np.asarray(out), np.asarray(grads["data"])


# -- special values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values", "slopes"),
    [
        ("relu", [0, 0, 100, np.inf, 0], [0, 0, 1, 1, 0]),
        ("sigmoid", [0.5, 0, 1, 1, 0], [0.25, 0, 0, 0, 0]),
        ("softrelu", [np.log(2), 0, 100, np.inf, 0], [0.5, 0, 1, 1, 0]),
        ("tanh", [0, -1, 1, 1, -1], [1, 0, 0, 0, 0]),
    ],
)
def test_activation_at_0_and_far_away(kind: str, values: list[float], slopes: list[float]):
    out, grad = value_and_gradient(sym.Activation(DATA, act_type=kind), [0, -100, 100, np.inf, -np.inf])
    np.testing.assert_allclose(out, values, atol=1e-40)
    np.testing.assert_allclose(grad, slopes, atol=1e-40)


@pytest.mark.parametrize("kind", ["relu", "sigmoid", "softrelu", "softsign", "tanh"])
def test_nan_stays_nan(kind: str):
    assert np.isnan(value_and_gradient(sym.Activation(DATA, act_type=kind), [np.nan])[0]).all()


@pytest.mark.parametrize(
    ("kind", "values", "slopes"),
    [
        ("leaky", [0, -25, 100], [0.25, 0.25, 1]),
        ("elu", [0, -0.25, 100], [0.25, 0, 1]),
        ("selu", [0, -1.7580993, 105.07010], [1.7580993, 0, 1.0507010]),
        ("gelu", [0, 0, 100], [0.5, 0, 1]),
    ],
)
def test_leaky_relu_at_0_and_far_away(kind: str, values: list[float], slopes: list[float]):
    out, grad = value_and_gradient(leaky(act_type=kind), [0, -100, 100])
    np.testing.assert_allclose(out, values, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(grad, slopes, rtol=1e-6, atol=1e-7)


def test_the_gradient_of_selu_is_its_derivative():
    """MXNet multiplies what is below 0 by the scale twice."""
    _, grad = value_and_gradient(leaky(act_type="selu"), [-2.0])
    np.testing.assert_allclose(grad, [1.0507009873554805 * 1.6732632423543772 * np.exp(-2.0)], rtol=1e-5)


@pytest.mark.slow("compiles")
def test_jax_derivatives_of_elu_are_finite_far_away():
    f = lowering.to_jax(leaky(act_type="elu"))
    assert jax.grad(lambda x: f({"data": x})[0][0].sum())(jnp.asarray([1000.0])) == 1


# -- learned slopes --------------------------------------------------------------------------------------------------


def test_gamma_has_one_element_for_each_channel_unless_it_says_one_for_all():
    net = leaky(act_type="prelu")
    assert net.infer_shape_partial(data=(0, 3, 5))[0] == [(0, 3, 5), (3,)]
    assert net.infer_shape(data=(6,))[0] == [(6,), (6,)]
    assert net.infer_shape(data=(2, 3, 5), act_gamma=(1,))[0] == [(2, 3, 5), (1,)]


def test_gamma_starts_as_a_quarter_unless_it_says_otherwise():
    assert leaky(act_type="prelu").attr_dict()["act_gamma"]["__init__"] == '["Constant", {"value": 0.25}]'
    own = sym.Variable("own", attr={"__init__": '["zero", {}]'})
    assert sym.LeakyReLU(DATA, own, act_type="prelu").attr_dict()["own"]["__init__"] == '["zero", {}]'


@pytest.mark.parametrize("shape", [(5,), (3, 1), (1, 3, 4), (2, 5), (2, 3, 5, 1)])
def test_a_gamma_that_does_not_fit_is_named(shape: tuple[int, ...]):
    with refused(
        InferenceError,
        "LeakyReLU",
        "act",
        "gamma",
        "(3,), one for each channel, (1,), or the leading dimensions of data (2, 3, 5)",
        str(shape),
    ):
        leaky(act_type="prelu").infer_shape(data=(2, 3, 5), act_gamma=shape)


# -- random slopes ---------------------------------------------------------------------------------------------------


def test_random_slopes_are_uniform_between_their_bounds_and_shown():
    net = leaky(act_type="rrelu", lower_bound=0.2, upper_bound=0.6)
    assert net.list_outputs() == ["act_output", "act_mask"]
    data = -np.ones(20000, np.float32)
    (out, mask), _ = evaluated(lowering.to_jax(net, is_train=True), {"data": data}, key=KEY)
    np.testing.assert_array_equal(out, -mask)
    assert 0.2 <= mask.min() < 0.201
    assert 0.599 < mask.max() <= 0.6
    assert abs(mask.mean() - 0.4) < 4 * 0.4 / np.sqrt(12 * 20000)
    assert abs(mask.std() - 0.4 / np.sqrt(12)) < 0.002


def test_random_slopes_become_their_mean_outside_training_and_need_no_key():
    data = np.asarray([-2, 3], np.float32)
    (out, mask), _ = evaluated(lowering.to_jax(leaky(act_type="rrelu")), {"data": data})
    slope = (0.125 + 0.333999991) / 2
    np.testing.assert_allclose(out, [-2 * slope, 3], rtol=1e-6)
    np.testing.assert_allclose(mask, [slope, slope], rtol=1e-6)


def test_only_random_slopes_need_a_key():
    data = np.asarray([-2, 3], np.float32)
    evaluated(lowering.to_jax(leaky(), is_train=True), {"data": data})
    with pytest.raises(LoweringError, match="'act'.* needs a PRNG key"):
        lowering.to_jax(leaky(act_type="rrelu"), is_train=True)({"data": data})


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sym.Activation(DATA), ("act_type", "Activation")),
        (lambda: sym.Activation(DATA, act_type="gelu"), ("act_type", "'softsign'", "gelu")),
        (lambda: leaky(act_type="relu"), ("act_type", "'prelu'", "relu")),
        (lambda: leaky(act_type="rrelu", lower_bound=0.5, upper_bound=0.2), ("lower_bound=0.5", "upper_bound=0.2")),
    ],
)
def test_impossible_parameters_are_named(make: Any, words: tuple[str, ...]):
    with refused(ParamError, *words):
        make()


@pytest.mark.usefixtures("compiled_fully")
def test_selu_rounds_the_product_of_its_constants_once():
    x = np.linspace(-3, -0.01, 64, dtype=np.float32)
    (got,), _ = lowering.compile(leaky(act_type="selu"))({"data": x})
    factor = np.float32(1.0507009873554804934193349852946 * 1.6732632423543772848170429916717)
    np.testing.assert_array_equal(got, factor * np.asarray(jnp.expm1(x)))
