"""JAX rules of LayerNorm, GroupNorm and InstanceNorm, and of their gradients."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.wide import wide
from symjax_nnvm.ir.rules.axes import normal_axis
from symjax_nnvm.ops.nn import layer_norm as ops

Gradients = tuple[Array, Array, Array]


def _statistics(x: Array, axis: int, eps: float) -> tuple[Array, Array]:
    """Return (mean, √(variance + eps)) along an axis, which stays.

    Two passes: on a CPU as fast as one over shifted data, and exact where the mean is large against the deviation.
    """
    mean = jnp.mean(x, axis, keepdims=True)
    return mean, lax.sqrt(jnp.mean(lax.square(x - mean), axis, keepdims=True) + eps)


def _saved(x: Array, mean: Array, std: Array, axis: int, eps: float) -> tuple[Array, Array]:
    """Return the statistics that the forward operator found, as (mean, 1 / std) in the dtype of x.

    Rounded to half precision they would spoil the differences from the mean: they are computed once more, which XLA
    shares with the forward operator where both are in one program.
    """
    if mean.dtype != x.dtype:
        mean, std = _statistics(x, axis, eps)
    return mean, 1 / std


def _shown(p: Any, data: Array, *statistics: Array) -> list[Array]:
    """Return statistics in the dtype of data. No gradient passes through them as outputs; hidden ones are read by the
    operator's gradient, whose derivative by JAX depends on them."""
    values = [value.astype(data.dtype) for value in statistics]
    return [*map(lax.stop_gradient, values)] if getattr(p, "output_mean_var", False) else values


# -- LayerNorm -------------------------------------------------------------------------------------------------------


def _along(vector: Array, axis: int, like: Array) -> Array:
    """Return a vector, shaped to be broadcast along an axis."""
    return wide(lax.expand_dims(vector, [i for i in range(like.ndim) if i != axis]))


@lowers("LayerNorm")
def _layer_norm(p: ops.LayerNormParams, data: Array, gamma: Array, beta: Array) -> tuple[Array, ...]:
    axis = normal_axis(p.axis, data.ndim)
    x = wide(data)
    mean, std = _statistics(x, axis, p.eps)
    out = (x - mean) * (1 / std) * _along(gamma, axis, x) + _along(beta, axis, x)
    return out.astype(data.dtype), *_shown(p, data, mean, std)


@lowers("_backward_LayerNorm", needs=("platform", "mesh"))
def _layer_norm_gradient(
    p: ops.LayerNormParams,
    ograd: Array,
    data: Array,
    gamma: Array,
    mean: Array,
    std: Array,
    *,
    platform: str,
    mesh: Any,
) -> Gradients:
    axis = normal_axis(p.axis, data.ndim)
    x, dy = wide(data), wide(ograd)
    mean, r = _saved(x, mean, std, axis, p.eps)
    factor = _along(gamma, axis, x)
    others = [i for i in range(x.ndim) if i != axis]
    product = dy * (x - mean)
    if platform == "cpu" and axis == x.ndim - 1:
        # As matrix products: XLA stores one array, the product above, where for sums of products it would store each
        # factor that is not stored yet. float32[16384, 256], with the forward operator: 16 ms against 29 ms.
        weights = wide(gamma)
        sums, products = (jnp.expand_dims(value @ weights, axis) for value in (dy, product))
        # Twice: XLA calls a library for that, where a product with a vector is compiled anew each time, 14 ms. But
        # several devices would send both.
        times = 2 if mesh is None or mesh.size == 1 else 1
        dgamma = (jnp.broadcast_to(r.reshape(1, -1), (times, r.size)) @ product.reshape(-1, x.shape[axis]))[0]
    else:
        sums, products = (jnp.sum(value * factor, axis, keepdims=True) for value in (dy, product))
        dgamma = jnp.sum(product * r, others)
    n = x.shape[axis]
    dx = r * (dy * factor - sums / n - (x - mean) * (products * lax.square(r) / n))
    return dx.astype(data.dtype), dgamma.astype(gamma.dtype), jnp.sum(dy, others).astype(gamma.dtype)


# -- GroupNorm and InstanceNorm --------------------------------------------------------------------------------------


def _rows(p: ops.GroupNormParams | ops.InstanceNormParams, data: Array) -> Array:
    """(n, c, …) → (n, g, elements of a group); in InstanceNorm each channel is a group."""
    groups = p.num_groups if isinstance(p, ops.GroupNormParams) else data.shape[1]
    return wide(data).reshape(data.shape[0], groups, math.prod(data.shape[1:]) // groups)


@lowers("GroupNorm", "InstanceNorm")
def _group_norm(
    p: ops.GroupNormParams | ops.InstanceNormParams, data: Array, gamma: Array, beta: Array
) -> tuple[Array, ...]:
    x = _rows(p, data)
    mean, std = _statistics(x, 2, p.eps)
    out = (x - mean) * (_along(gamma, 1, x) / std) + _along(beta, 1, x)
    statistics = (value.reshape(x.shape[:2]) for value in _shown(p, data, mean, std))
    return out.reshape(data.shape).astype(data.dtype), *statistics


@lowers("_backward_GroupNorm", "_backward_InstanceNorm")
def _group_norm_gradient(
    p: ops.GroupNormParams | ops.InstanceNormParams, ograd: Array, data: Array, gamma: Array, mean: Array, std: Array
) -> Gradients:
    x, dy = _rows(p, data), _rows(p, ograd)
    mean, r = _saved(x, jnp.expand_dims(mean, 2), jnp.expand_dims(std, 2), 2, p.eps)
    # gamma is the same for all of a row, so that the sums over rows serve all three gradients.
    sums = jnp.sum(dy, 2, keepdims=True)
    products = jnp.sum(dy * (x - mean), 2, keepdims=True) * r
    n = x.shape[2]
    dx = _along(gamma, 1, x) * r * (dy - sums / n - (x - mean) * (products * r / n))
    dgamma, dbeta = (jnp.sum(value, (0, 2)).astype(gamma.dtype) for value in (products, sums))
    return dx.reshape(data.shape).astype(data.dtype), dgamma, dbeta
