"""BatchNorm: inference, what variables start as, moving statistics, refusals, and numbers that are easy to lose."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError
from tests.support.comparison import assert_close
from tests.support.refusals import refused
from tests.support.traced import evaluated

DATA = sym.Variable("data")


def norm(**params: Any) -> sym.Symbol:
    return sym.BatchNorm(DATA, name="bn", **params)


def state(channels: int, dtype: Any = np.float32) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(gamma and beta, moving statistics)."""
    rng = np.random.RandomState(3)
    args = {"bn_gamma": rng.uniform(0.5, 1.5, channels), "bn_beta": rng.randn(channels)}
    aux = {"bn_moving_mean": rng.randn(channels), "bn_moving_var": rng.uniform(0.5, 2, channels)}
    return {k: v.astype(dtype) for k, v in args.items()}, {k: v.astype(dtype) for k, v in aux.items()}


# -- inference and composition ---------------------------------------------------------------------------------------


def test_statistics_have_one_element_for_each_channel():
    assert norm().infer_shape_partial(data=(0, 3, 0)) == ([(0, 3, 0), (3,), (3,)], [(0, 3, 0)], [(3,), (3,)])
    assert norm(axis=-1).infer_shape(data=(2, 4, 5))[2] == [(5,), (5,)]


def test_channels_of_data_are_learnt_from_gamma():
    assert norm().infer_shape_partial(data=(2, 0, 4), bn_gamma=(3,))[1] == [(2, 3, 4)]


def test_half_precision_data_have_single_precision_parameters():
    for dtype in ("float16", "bfloat16"):
        arguments, outputs, auxiliary = norm(output_mean_var=True).infer_type(data=dtype)
        assert [str(np.dtype(t)) for t in (*arguments[1:], *outputs[1:], *auxiliary)] == ["float32"] * 6
    assert norm().infer_type(data="float64")[0] == [np.float64] * 3


def test_outputs_are_hidden_unless_asked_for():
    assert norm().list_outputs() == ["bn_output"]
    assert norm(output_mean_var=True).list_outputs() == ["bn_output", "bn_mean", "bn_var"]
    assert norm().list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]


def test_moving_statistics_start_as_mean_0_and_variance_1_unless_they_say_otherwise():
    attributes = norm().attr_dict()
    assert attributes["bn_moving_mean"]["__init__"] == '["zero", {}]'
    assert attributes["bn_moving_var"]["__init__"] == '["one", {}]'
    assert "__init__" not in attributes.get("bn_gamma", {})
    own = sym.Variable("own", attr={"__init__": '["one", {}]'})
    assert norm(moving_mean=own).attr_dict()["own"]["__init__"] == '["one", {}]'


@pytest.mark.parametrize(
    ("params", "shapes", "words"),
    [
        ({"axis": 3}, {"data": (2, 3, 4)}, ("axis", "Channel axis out of range: 3", "-3 ≤ axis < 3")),
        ({}, {"data": (2,)}, ("axis", "Channel axis out of range: 1")),
        ({}, {"data": (2, 3, 4), "bn_gamma": (2,)}, ("gamma", "(3,)", "(2,)")),  # MXNet overrides it silently
        ({}, {"data": (2, 3, 4), "bn_moving_var": (4,)}, ("moving_var", "(3,)", "(4,)")),
    ],
)
def test_impossible_shapes_are_named(params: dict[str, Any], shapes: dict[str, Any], words: tuple[str, ...]):
    with refused(InferenceError, "BatchNorm", "bn", *words):
        norm(**params).infer_shape(**shapes)


# -- moving statistics -----------------------------------------------------------------------------------------------


def test_moving_statistics_follow_in_training_only():
    data = np.random.RandomState(0).randn(4, 3, 2).astype(np.float32)
    args, aux = state(3)
    args["data"] = data
    _, new = evaluated(lowering.to_jax(norm(momentum=0.7), is_train=True), args, aux)
    mean, var = data.mean((0, 2)), data.var((0, 2))
    assert_close(new["bn_moving_mean"], 0.7 * aux["bn_moving_mean"] + 0.3 * mean, 1e-6, "mean")
    assert_close(new["bn_moving_var"], 0.7 * aux["bn_moving_var"] + 0.3 * var, 1e-6, "biased variance")
    for params, is_train in (({}, False), ({"use_global_stats": True}, True)):
        _, new = evaluated(lowering.to_jax(norm(**params), is_train=is_train), args, aux)
        for name, value in aux.items():
            np.testing.assert_array_equal(new[name], value)


def test_the_output_var_is_one_over_the_deviation():
    data = np.random.RandomState(0).randn(4, 3).astype(np.float32)
    args, aux = state(3)
    outputs, _ = evaluated(
        lowering.to_jax(norm(output_mean_var=True, eps=0.01), is_train=True), args | {"data": data}, aux
    )
    assert_close(outputs[1], data.mean(0), 1e-6, "mean")
    assert_close(outputs[2], 1 / np.sqrt(data.var(0) + 0.01), 1e-6, "var")


def test_fix_gamma_takes_1_for_gamma_and_gives_it_no_gradient():
    data = np.random.RandomState(0).randn(4, 3).astype(np.float32)
    args, aux = state(3)
    head = np.random.RandomState(1).randn(4, 3).astype(np.float32)
    (fixed,), grads, _ = evaluated(lowering.grad_fn(norm()), args | {"data": data}, aux, head_grads=[head])
    ones = args | {"data": data, "bn_gamma": np.ones(3, np.float32)}
    (free,), free_grads, _ = evaluated(lowering.grad_fn(norm(fix_gamma=False)), ones, aux, head_grads=[head])
    np.testing.assert_array_equal(fixed, free)
    np.testing.assert_array_equal(grads["bn_gamma"], np.zeros(3))
    np.testing.assert_array_equal(grads["data"], free_grads["data"])


# -- numbers ---------------------------------------------------------------------------------------------------------


def test_the_variance_survives_a_mean_a_thousand_times_the_deviation():
    data = (np.random.RandomState(0).randn(512, 2) + np.asarray([1000.0, -3000.0])).astype(np.float32)
    args, aux = state(2)
    outputs, _ = evaluated(
        lowering.to_jax(norm(output_mean_var=True, eps=1e-5), is_train=True), args | {"data": data}, aux
    )
    exact = data.astype(np.float64)
    assert_close(outputs[2], 1 / np.sqrt(exact.var(0) + 1e-5), 1e-4, "var")


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
def test_half_precision_is_normalised_in_single(dtype: Any):
    data = (np.random.RandomState(0).randn(300, 2) * 30 + 100).astype(np.float32)
    args, aux = state(2)
    (ours,), new = evaluated(
        lowering.to_jax(norm(fix_gamma=False), is_train=True), args | {"data": data.astype(dtype)}, aux
    )
    rounded = np.asarray(data.astype(dtype)).astype(np.float32)
    (exact,), new_exact = evaluated(
        lowering.to_jax(norm(fix_gamma=False), is_train=True), args | {"data": rounded}, aux
    )
    assert ours.dtype == dtype
    np.testing.assert_array_equal(np.asarray(ours, np.float32), np.asarray(exact.astype(dtype), np.float32))
    assert new["bn_moving_var"].dtype == np.float32
    np.testing.assert_array_equal(new["bn_moving_var"], new_exact["bn_moving_var"])


def test_one_element_in_a_channel_has_variance_0():
    args, aux = state(2)
    (out,), grads, _ = evaluated(
        lowering.grad_fn(norm(axis=0)),
        args | {"data": np.asarray([3, -4], np.float32)},
        aux,
        head_grads=[np.ones(2, np.float32)],
    )
    np.testing.assert_allclose(out, args["bn_beta"])
    np.testing.assert_array_equal(grads["data"], np.zeros(2))


def test_inference_is_one_multiply_and_one_add_an_element():
    args, aux = state(8)
    args["data"] = np.ones((2, 8, 4, 4), np.float32)
    function = lowering.to_jax(norm(fix_gamma=False))
    jaxpr = jax.make_jaxpr(function)(args, aux)
    full = [e.primitive.name for e in jaxpr.eqns if e.outvars[0].aval.shape == (2, 8, 4, 4)]  # pyright: ignore[reportAttributeAccessIssue]
    assert sorted(full) == ["add", "mul"]


@pytest.mark.parametrize("order", [2, pytest.param(3, marks=pytest.mark.nightly("a third order"))])
def test_batch_norm_is_differentiable_three_times_in_both_modes(order: int):
    args, aux = state(2, np.float64)
    args["data"] = np.random.RandomState(0).randn(4, 2)
    normal = norm(fix_gamma=False, axis=1)
    gradient = net = sym.square(normal) * normal
    for _ in range(order):  # of squares: what shifts all data alike changes nothing, so gradients add up to 0
        gradient = sym.square(gradient).gradient(["data"])
    for is_train in (True, False):
        with jax.enable_x64(True):
            (ours,), _ = evaluated(lowering.to_jax(gradient, is_train=is_train), args, aux)
            forward = lowering.to_jax(net, is_train=is_train)
            derivative: Any = lambda x, f=forward: f(args | {"data": x}, aux)[0][0]  # noqa: E731
            for _ in range(order):
                derivative = jax.grad(lambda x, f=derivative: jnp.sum(jnp.square(f(x))))
            expected = evaluated(derivative, args["data"])
            assert np.abs(expected).max() > 1
            np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)
