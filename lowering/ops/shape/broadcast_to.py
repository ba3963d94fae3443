"""JAX rules of broadcasting to a shape, and of the sum that undoes it."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.ops.shape import broadcast_to as ops


@lowers("broadcast_to")
def _broadcast_to(p: ops.BroadcastToParams, data: Array) -> Array:
    return jnp.broadcast_to(data, tuple(dim or old for dim, old in zip(p.shape, data.shape, strict=True)))


@lowers("_npi_broadcast_to")
def _npi_broadcast_to(p: ops.NumpyBroadcastToParams, array: Array) -> Array:
    _, (shape,) = ops.numpy_broadcast_shapes(p, [array.shape], [None])
    return jnp.broadcast_to(array, shape)


@lowers("broadcast_axis")
def _broadcast_axis(p: ops.BroadcastAxisParams, data: Array) -> Array:
    _, (shape,) = ops.broadcast_axis_shapes(p, [data.shape], [None])
    return jnp.broadcast_to(data, shape)


@lowers("broadcast_like")
def _broadcast_like(p: ops.BroadcastLikeParams, lhs: Array, rhs: Array) -> Array:
    _, (shape,) = ops.broadcast_like_shapes(p, [lhs.shape, rhs.shape], [None])
    return jnp.broadcast_to(lhs, shape)


@lowers("_sum_like")
def _sum_like(p, data: Array, like: Array) -> Array:
    added = data.ndim - like.ndim
    old = (1,) * added + like.shape
    axes = tuple(i for i in range(data.ndim) if i < added or old[i] != data.shape[i])
    return jnp.sum(data, axes, dtype=data.dtype).reshape(like.shape) if axes else data
