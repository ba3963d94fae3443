"""Convolution: inference backwards, refusals, layouts that agree, and the code XLA makes of it."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from tests.support.comparison import assert_close
from tests.support.refusals import refused
from tests.support.traced import evaluated

DATA = sym.Variable("data")


def conv(**params: Any) -> sym.Symbol:
    return sym.Convolution(DATA, name="conv", **({"kernel": (3, 2), "num_filter": 4} | params))


# -- inference backwards ---------------------------------------------------------------------------------------------


def test_weight_and_bias_are_learnt_from_data_whose_batch_is_unknown():
    arguments, outputs, _ = conv(num_group=2).infer_shape_partial(data=(0, 6, 5, 5))
    assert arguments == [(0, 6, 5, 5), (4, 3, 3, 2), (4,)]
    assert outputs == [(0, 4, 3, 4)]


def test_an_unknown_spatial_size_stays_unknown():
    arguments, outputs, _ = conv().infer_shape_partial(data=(0, 3, 5, 0))
    assert arguments == [(0, 3, 5, 0), (4, 3, 3, 2), (4,)]
    assert outputs == [(0, 4, 3, 0)]


def test_channels_last_puts_filters_first_and_channels_last_in_the_weight():
    arguments, outputs, _ = conv(layout="NHWC").infer_shape(data=(2, 5, 6, 3))
    assert arguments == [(2, 5, 6, 3), (4, 3, 2, 3), (4,)]
    assert outputs == [(2, 3, 5, 4)]


def test_channels_are_learnt_from_the_weight_and_filters_from_the_parameters():
    arguments, outputs, _ = conv(num_group=2).infer_shape_partial(conv_weight=(4, 3, 3, 2))
    assert arguments == [(0, 6, 0, 0), (4, 3, 3, 2), (4,)]
    assert outputs == [(0, 4, 0, 0)]


def test_the_result_gives_the_batch_and_with_stride_1_the_sizes():
    net = conv(pad=(1, 0), stride=(1, 2)) + sym.Variable("like", shape=(7, 4, 5, 3))
    assert dict(zip(net.list_arguments(), net.infer_shape_partial()[0], strict=True))["data"] == (7, 0, 5, 0)


def test_gradients_have_known_shapes_as_soon_as_their_arguments_have():
    first = conv().gradient(["data", "conv_weight", "conv_bias"])
    assert first.infer_shape(data=(2, 3, 5, 6))[1] == [(2, 3, 5, 6), (4, 3, 3, 2), (4,)]


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"kernel": (1, 1, 1, 1)}, ("kernel", "4D convolution not supported")),
        ({"kernel": ()}, ("kernel", "0D convolution not supported")),
        ({"kernel": (0, 1)}, ("kernel", "≥ 1", "(0, 1)")),
        ({"stride": (0, 1)}, ("stride", "≥ 1", "(0, 1)")),
        ({"dilate": (1, 0)}, ("dilate", "≥ 1", "(1, 0)")),
        ({"pad": (-1, 0)}, ("pad", "≥ 0", "(-1, 0)")),
        ({"stride": (1,)}, ("stride", "same number of dimensions", "(3, 2)")),
        ({"dilate": (1, 1, 1)}, ("dilate", "same number of dimensions", "(3, 2)")),
        ({"num_filter": 0}, ("num_filter", "≥ 1")),
        ({"num_group": 0}, ("num_group", "≥ 1")),
        ({"num_group": 3}, ("num_filter=4", "num_group=3")),
        ({"layout": "NCW"}, ("layout", "'NCW'", "2 spatial axes")),
        ({"layout": "NWC"}, ("layout", "'NHWC'")),
        ({"workspace": 9000}, ("workspace", "8192")),
    ],
)
def test_impossible_parameters_are_named(params: dict[str, Any], words: tuple[str, ...]):
    with refused(ParamError, "Convolution", *words):
        conv(**params)


@pytest.mark.parametrize(
    ("params", "shapes", "words"),
    [
        ({"num_group": 2}, {"data": (1, 3, 5, 5)}, ("num_group", "divisor of 3", "got 2")),
        ({}, {"data": (1, 3, 5, 1)}, ("kernel", "at most 1", "got 2")),
        ({"dilate": (3, 1)}, {"data": (1, 3, 6, 5)}, ("kernel", "at most 6", "got 7")),
        ({}, {"data": (1, 3, 5)}, ("kernel", "4 axes", "(1, 3, 5)")),
        ({}, {"data": (1, 3, 5, 5), "conv_weight": (4, 2, 3, 2)}, ("weight", "(4, 3, 3, 2)", "(4, 2, 3, 2)")),
        ({}, {"data": (1, 3, 5, 5), "conv_bias": (3,)}, ("bias", "(4,)", "(3,)")),
    ],
)
def test_impossible_shapes_are_named(params: dict[str, Any], shapes: dict[str, Any], words: tuple[str, ...]):
    with refused(InferenceError, "Convolution", "conv", *words):
        conv(**params).infer_shape(**shapes)


# -- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [1, 2, 4])
def test_channels_last_is_channels_first_with_its_axes_moved(group: int):
    rng = np.random.RandomState(0)
    args = {"data": rng.randn(2, 4, 7, 6), "conv_weight": rng.randn(4, 4 // group, 3, 2), "conv_bias": rng.randn(4)}
    head = rng.randn(2, 4, 3, 6)
    params = {"num_group": group, "stride": (2, 1), "pad": (0, 1), "dilate": (1, 2)}
    with jax.enable_x64(True):
        (first,), grads, _ = evaluated(lowering.grad_fn(conv(**params)), args, head_grads=[head])
        moved = {name: np.moveaxis(value, 1, -1) if value.ndim > 1 else value for name, value in args.items()}
        (last,), moved_grads, _ = evaluated(
            lowering.grad_fn(conv(layout="NHWC", **params)), moved, head_grads=[np.moveaxis(head, 1, -1)]
        )
    assert_close(np.moveaxis(np.asarray(last), -1, 1), first, 1e-12, "output")
    for name, grad in grads.items():
        ours = np.asarray(moved_grads[name])
        assert_close(np.moveaxis(ours, -1, 1) if ours.ndim > 1 else ours, grad, 1e-12, name)


@pytest.mark.nightly("a third order")
def test_convolution_is_differentiable_three_times():
    x, w = sym.Variable("data"), sym.Variable("w")
    net = sym.tanh(sym.Convolution(x, w, kernel=(2,), num_filter=2, stride=(2,), no_bias=True))
    third = net.gradient(["w"]).gradient(["w"]).gradient(["w"])
    rng = np.random.RandomState(0)
    args = {"data": rng.randn(1, 2, 5), "w": rng.randn(2, 2, 2)}
    with jax.enable_x64(True):
        (ours,), _ = evaluated(lowering.to_jax(third), args)

        def total(w: jax.Array) -> jax.Array:
            return jnp.sum(lowering.to_jax(net)({**args, "w": w})[0][0])

        derivative: Callable[..., jax.Array] = total
        for _ in range(3):
            derivative = jax.grad(lambda w, f=derivative: jnp.sum(f(w)))
        assert_close(ours, derivative(jnp.asarray(args["w"])), 1e-9, "third derivative")


# -- code ------------------------------------------------------------------------------------------------------------


def instructions(function: Callable[..., Any], *args: Any) -> int:
    text = jax.jit(function).lower(*args).compile().as_text() or ""
    return len(re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = ", text, re.MULTILINE))


@pytest.mark.slow("compiles")
def test_a_network_compiles_to_what_jax_makes_of_the_same_network_by_hand():
    net = DATA
    for name, stride, filters in (("a", 1, 4), ("b", 2, 6)):
        net = sym.Convolution(
            net, name=name, kernel=(3, 3), pad=(1, 1), stride=(stride, stride), num_filter=filters, num_group=2
        )
        net = sym.Activation(net, act_type="relu")

    def by_hand(args: dict[str, jax.Array]) -> jax.Array:
        x = args["data"]
        for name, stride in (("a", 1), ("b", 2)):
            weight, bias = args[f"{name}_weight"], args[f"{name}_bias"]
            x = lax.conv_general_dilated(x, weight, (stride, stride), [(1, 1)] * 2, feature_group_count=2)
            x = jax.nn.relu(x + bias[:, None, None])
        return x

    shape = (2, 4, 8, 8)
    shapes, (out_shape,), _ = net.infer_shape(data=shape)
    args = {name: jnp.ones(shape) for name, shape in zip(net.list_arguments(), shapes, strict=True)}
    head = jnp.ones(out_shape)
    grad = lowering.grad_fn(net, platform="gpu")  # where groups are left to XLA
    ours = instructions(lambda args: grad(args, head_grads=[head])[:2], args)
    theirs = instructions(
        lambda args: (by_hand(args), jax.grad(lambda args: jnp.sum(by_hand(args) * head))(args)), args
    )
    assert ours <= theirs


@pytest.mark.nightly("every case", but_one_in=2)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("groups", [4, 2])
def test_grouped_convolution_is_one_rule_with_two_forms(groups: int):
    """Shifted products on a CPU, XLA's grouped convolution elsewhere: equal numbers, gradients included."""
    net = sym.Convolution(
        sym.Variable("x"), kernel=(3, 3), num_filter=4, num_group=groups, stride=(2, 2), pad=(1, 1), name="c"
    )
    rng = np.random.default_rng(0)
    args = {
        "x": rng.normal(size=(2, 4, 7, 8)).astype("float32"),
        "c_weight": rng.normal(size=(4, 4 // groups, 3, 3)).astype("float32"),
        "c_bias": rng.normal(size=4).astype("float32"),
    }
    head = [rng.normal(size=(2, 4, 4, 4)).astype("float32")]
    forms = {platform: lowering.grad_fn(net, platform=platform) for platform in ("cpu", "gpu")}
    traced = {platform: str(jax.make_jaxpr(form)(args, {}, None, head)) for platform, form in forms.items()}
    assert "conv_general_dilated" not in traced["cpu"]
    assert traced["gpu"].count("conv_general_dilated") == 3
    (out, grads, _), (other, other_grads, _) = (form(args, {}, None, head) for form in forms.values())
    assert_close(out[0], other[0], 1e-6, "output")
    for name, grad in grads.items():
        assert_close(grad, other_grads[name], 1e-6, f"gradient of {name}")
