"""JAX rules of activations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.nn import activation as ops


def _relu(x: Array) -> Array:
    return lax.max(x, lax.full_like(x, 0))


def _softrelu(x: Array) -> Array:
    """Return log(1 + eˣ) without overflow."""
    return _relu(x) + lax.log1p(lax.exp(-lax.abs(x)))


_ACTIVATIONS = {
    "relu": _relu,
    "sigmoid": lax.logistic,
    "softrelu": _softrelu,
    "softsign": lambda x: x / (lax.abs(x) + 1),
    "tanh": lax.tanh,
}


@lowers("Activation")
def _activation(p: ops.ActivationParams, data: Array) -> Array:
    return _ACTIVATIONS[p.act_type](data)


def _exponential_below_zero(x: Array) -> Array:
    """Return eˣ - 1 for x ≤ 0; of larger x, whose result no caller uses, it does not overflow."""
    return lax.expm1(lax.min(x, lax.full_like(x, 0)))


def gelu(x: Array) -> Array:
    return 0.5 * x * (lax.erf(x * np.sqrt(0.5).item()) + 1)


@lowers("LeakyReLU", needs=("key",))
def _leaky_relu(
    p: ops.LeakyReLUParams, data: Array, gamma: Array | None = None, *, key: Any
) -> Array | tuple[Array, Array]:
    match p.act_type:
        case "leaky":
            below = data * p.slope
        case "elu":
            below = _exponential_below_zero(data) * p.slope
        case "selu":
            below = _exponential_below_zero(data) * (ops.SELU_SCALE * ops.SELU_ALPHA)  # one number, as MXNet rounds it
            return jnp.where(data > 0, data * ops.SELU_SCALE, below)
        case "gelu":
            return gelu(data)
        case "rrelu":
            slopes = _random_slopes(p, data, key)
            return lax.select(data > 0, data, data * slopes), slopes
        case "prelu":
            assert gamma is not None
            below = data * _slopes_like(p, gamma, data)
    return lax.select(data > 0, data, below)


@lowers("_slopes_like")
def _slopes_like(p: Any, gamma: Array, like: Array) -> Array:
    return gamma.reshape([dim or 0 for dim in ops.slopes_shape(gamma.shape, like.shape)])


def _random_slopes(p: ops.LeakyReLUParams, data: Array, key: Any) -> Array:
    """Return a slope for each element: random in training, where there is a key, else the mean."""
    if key is None:
        return lax.full_like(data, (p.lower_bound + p.upper_bound) / 2)
    return jax.random.uniform(key, data.shape, data.dtype, p.lower_bound, p.upper_bound)
