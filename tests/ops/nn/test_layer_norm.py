"""LayerNorm, GroupNorm, InstanceNorm: inference, refusals, numbers that are easy to lose, both ways to the gradient."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from lowering.core.rules import FLowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ops.nn.layer_norm import LayerNormParams
from tests.support.comparison import assert_close
from tests.support.refusals import refused

DATA = sym.Variable("data")


def values(net: sym.Symbol, data: Any) -> dict[str, Any]:
    """Arguments: the data, gamma around 1, beta around 0."""
    rng = np.random.RandomState(1)
    vectors = dict(zip(net.list_arguments()[1:], net.infer_shape(data=np.shape(data))[0][1:], strict=True))
    drawn = {name: rng.uniform(0.5, 1.5, shape) for name, shape in vectors.items()}
    return {"data": data} | {name: value.astype(np.asarray(data).dtype) for name, value in drawn.items()}


# -- inference -------------------------------------------------------------------------------------------------------


def test_gamma_and_beta_have_the_length_of_the_axis():
    net = sym.LayerNorm(DATA, axis=1, name="ln")
    assert net.infer_shape(data=(2, 3, 4)) == ([(2, 3, 4), (3,), (3,)], [(2, 3, 4)], [])
    assert net.infer_shape_partial(data=(2, 0, 4), ln_beta=(3,))[1] == [(2, 3, 4)]


def test_group_norm_has_one_gamma_for_each_group():
    """As in MXNet 1.9; later versions have one for each channel."""
    assert sym.GroupNorm(DATA, num_groups=2, name="gn").infer_shape(data=(2, 6, 5))[0] == [(2, 6, 5), (2,), (2,)]


def test_instance_norm_learns_channels_from_gamma():
    net = sym.InstanceNorm(DATA, name="norm")
    assert net.infer_shape_partial(data=(2, 0, 4), norm_gamma=(3,))[0] == [(2, 3, 4), (3,), (3,)]


def test_statistics_are_shown_when_asked_for():
    shapes = {"LayerNorm": (2, 3, 1), "GroupNorm": (2, 1)}
    for name, shape in shapes.items():
        net = getattr(sym, name)(DATA, output_mean_var=True, name="op")
        assert net.list_outputs() == ["op_output", "op_mean", "op_std"]
        assert net.infer_shape(data=(2, 3, 4))[1] == [(2, 3, 4), shape, shape]
        assert getattr(sym, name)(DATA, name="op").list_outputs() == ["op_output"]


@pytest.mark.parametrize(
    ("net", "shapes", "words"),
    [
        (
            sym.LayerNorm(DATA, axis=3, name="op"),
            {"data": (2, 3, 4)},
            ("Channel axis out of range: axis=3", "axis < 3"),
        ),
        (sym.LayerNorm(DATA, axis=-4, name="op"), {"data": (2, 3, 4)}, ("Channel axis out of range: axis=-4",)),
        (sym.LayerNorm(DATA, name="op"), {"data": (2, 3), "op_gamma": (2,)}, ("gamma", "(3,)", "(2,)")),
        (sym.GroupNorm(DATA, name="op"), {"data": (2, 3)}, ("rank >= 3", "(2, 3)")),
        (sym.GroupNorm(DATA, num_groups=3, name="op"), {"data": (2, 4, 5)}, ("num_groups", "divisor of 4", "got 3")),
        (sym.InstanceNorm(DATA, name="op"), {"data": (2, 3)}, ("rank >= 3", "(2, 3)")),
    ],
)
def test_impossible_shapes_are_named(net: sym.Symbol, shapes: dict[str, Any], words: tuple[str, ...]):
    with refused(InferenceError, "Norm", "op", *words):
        net.infer_shape(**shapes)


def test_impossible_parameters_and_dtypes_are_named():
    with pytest.raises(ParamError, match="num_groups"):
        sym.GroupNorm(DATA, num_groups=0)
    for name in ("LayerNorm", "GroupNorm", "InstanceNorm"):
        with pytest.raises(InferenceError, match="floating point types, not int32"):
            getattr(sym, name)(DATA).infer_type(data="int32")


# -- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", ["LayerNorm", "GroupNorm", "InstanceNorm"])
def test_a_mean_ten_thousand_times_the_deviation_does_not_spoil_the_result(name: str):
    data = np.random.RandomState(0).randn(2, 2, 64).astype(np.float32) + 1e4
    net = getattr(sym, name)(DATA, name="op")
    (out,), _ = jax.jit(lowering.to_jax(net))(values(net, data))
    with jax.enable_x64(True):
        (exact,), _ = jax.jit(lowering.to_jax(net))(values(net, data.astype(np.float64)))
    assert_close(out, exact, 1e-3, "output")


@pytest.mark.slow("has many cases")
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16])
@pytest.mark.parametrize("name", ["LayerNorm", "GroupNorm", "InstanceNorm"])
def test_half_precision_is_computed_in_single(name: str, dtype: Any):
    """Also the gradient: the statistics that it uses are not the rounded ones."""
    net = getattr(sym, name)(DATA, name="op")
    data = np.random.RandomState(0).randn(2, 2, 300) * 2 + 200
    half = {key: np.asarray(value).astype(dtype) for key, value in values(net, data.astype(np.float32)).items()}
    head = np.random.RandomState(2).uniform(-1, 1, data.shape).astype(dtype)
    (out,), grads, _ = jax.jit(lowering.grad_fn(net))(half, head_grads=[head])
    wide = {key: value.astype(np.float32) for key, value in half.items()}
    (exact,), exact_grads, _ = jax.jit(lowering.grad_fn(net))(wide, head_grads=[head.astype(np.float32)])
    resolution = float(jnp.finfo(dtype).eps)
    for ours, theirs in [(out, exact), *((grads[key], exact_grads[key]) for key in half)]:
        assert ours.dtype == dtype
        assert_close(np.asarray(ours, np.float32), theirs, resolution, "half precision")


def test_a_constant_row_is_beta_and_has_no_gradient():
    net = sym.LayerNorm(DATA, name="op")
    args = values(net, np.full((2, 4), 7, np.float32))
    (out,), grads, _ = jax.jit(lowering.grad_fn(net))(args, head_grads=[np.ones((2, 4), np.float32)])
    np.testing.assert_array_equal(out, np.broadcast_to(args["op_beta"], (2, 4)))
    assert np.isfinite(grads["data"]).all()
    np.testing.assert_array_equal(grads["op_gamma"], np.zeros(4))


# -- gradients -------------------------------------------------------------------------------------------------------


@pytest.mark.nightly("every case", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("shape", [(4, 5), (2, 3, 5), (5,)])
def test_every_platform_has_the_same_gradient(shape: tuple[int, ...]):
    """On a CPU by matrix products, elsewhere by sums."""
    rng = np.random.RandomState(0)
    rule, forward = (FLowering[Op.get(name)].rule for name in ("_backward_LayerNorm", "LayerNorm"))
    data, ograd = (jnp.asarray(rng.randn(*shape), jnp.float32) for _ in range(2))
    gamma = jnp.asarray(rng.rand(shape[-1]), jnp.float32)
    p = LayerNormParams()
    _, mean, std = forward(p, data, gamma, gamma)
    found = {name: rule(p, ograd, data, gamma, mean, std, platform=name, mesh=None) for name in ("cpu", "gpu")}
    for ours, theirs in zip(found["cpu"], found["gpu"], strict=True):
        assert_close(ours, theirs, 1e-5, "gradient")


@pytest.mark.nightly("every operator", but_one_in=3)
@pytest.mark.slow("compiles")
@pytest.mark.parametrize("name", ["LayerNorm", "GroupNorm", "InstanceNorm"])
def test_third_order_gradients_are_those_of_jax(name: str):
    """Weighted each time: a plain sum is a derivative along a direction that the result does not depend on."""
    weight = np.random.RandomState(5).randn(2, 2, 3)
    net = sym.square(getattr(sym, name)(DATA, name="op"))
    third = net
    for _ in range(3):
        third = (third * sym.Variable("weight")).gradient(["data"])
    args = values(net, np.random.RandomState(0).randn(2, 2, 3))
    with jax.enable_x64(True):
        (ours,), _ = jax.jit(lowering.to_jax(third))(args | {"weight": weight})
        forward = lowering.to_jax(net)
        derivative: Any = lambda x: forward(args | {"data": x})[0][0]  # noqa: E731
        for _ in range(3):
            derivative = jax.grad(lambda x, f=derivative: jnp.sum(f(x) * weight))
        expected = jax.jit(derivative)(jnp.asarray(args["data"]))
    assert_close(ours, expected, 1e-9, "third-order gradient")
    assert np.max(np.abs(expected)) > 0.1
