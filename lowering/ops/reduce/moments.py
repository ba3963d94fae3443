"""JAX rules of moments."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.wide import wide
from symjax_nnvm.ops.reduce import moments as ops
from symjax_nnvm.ops.reduce.reduction import reduced_axes, reduced_shape


@lowers("moments")
def _moments(p: ops.MomentsParams, data: Array) -> tuple[Array, Array]:
    axes = reduced_axes(p.reduction, data.ndim)
    shape = reduced_shape(p.reduction, data.shape)
    if jnp.issubdtype(data.dtype, jnp.floating):
        x = wide(data)
        mean = jnp.mean(x, axes, keepdims=True)
        variance = jnp.mean(lax.square(x - mean), axes)
    else:
        count = math.prod(data.shape[axis] for axis in axes)
        mean = _truncated_mean(data, axes, count)
        variance = _truncated_mean(lax.square(data - mean), axes, count)
    return mean.reshape(shape).astype(data.dtype), variance.reshape(shape).astype(data.dtype)


def _truncated_mean(data: Array, axes: tuple[int, ...], count: int) -> Array:
    total = jnp.sum(data, axes, dtype=data.dtype, keepdims=True)
    return lax.div(total, jnp.full_like(total, count))
