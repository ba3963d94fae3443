"""JAX's derivative of MXGradient's gradient functions, where a gradient reads statistics that depend on data."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.symbol import Symbol

NORMS: dict[str, Callable[[Symbol], Symbol]] = {
    "BatchNorm": lambda data: sym.BatchNorm(data, name="norm", fix_gamma=False),
    "SyncBatchNorm": lambda data: sym.contrib.SyncBatchNorm(data, name="norm", key="k"),
    "BatchNormWithReLU": lambda data: sym.contrib.BatchNormWithReLU(data, name="norm"),
    "LayerNorm": lambda data: sym.LayerNorm(data, name="norm"),
    "GroupNorm": lambda data: sym.GroupNorm(data, name="norm", num_groups=2),
    "InstanceNorm": lambda data: sym.InstanceNorm(data, name="norm"),
}


@pytest.mark.slow("compiles derivatives")
@pytest.mark.parametrize("name", NORMS)
def test_it_is_the_gradient_of_the_gradient(name: str):
    """By both doors, beside `gradient` of the symbol of the gradient."""
    net = sym.tanh(NORMS[name](sym.Variable("data")))
    rng = np.random.default_rng(4)
    shapes = net.infer_shape(data=(4, 4, 5))
    args = {n: rng.uniform(0.5, 2, shape) for n, shape in zip(net.list_arguments(), shapes[0], strict=True)}
    aux = {n: np.ones(shape) for n, shape in zip(net.list_auxiliary_states(), shapes[2], strict=True)}
    weights = rng.normal(size=(4, 4, 5))
    data = args.pop("data")
    first, forward = lowering.grad_fn(net, wrt=["data"]), lowering.differentiable(net)
    twice = lowering.grad_fn(net.gradient(["data"]), wrt=["data"])

    def of_grad_fn(x: jax.Array) -> jax.Array:
        return jnp.vdot(first({**args, "data": x}, aux, None, [np.ones(x.shape)])[1]["data"], weights)

    def of_differentiable(x: jax.Array) -> jax.Array:
        return jnp.vdot(jax.grad(lambda y: jnp.sum(forward({**args, "data": y}, aux)[0][0]))(x), weights)

    with jax.enable_x64(True):
        expected = twice({**args, "data": data}, aux, None, [weights])[1]["data"]
        for function in (of_grad_fn, of_differentiable):
            np.testing.assert_allclose(jax.grad(function)(data), expected, rtol=1e-9, atol=1e-12)
