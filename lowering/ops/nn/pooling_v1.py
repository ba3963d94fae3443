"""JAX rules of Pooling_v1 and of the gradients of its maxima, on the windows of Pooling."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import ByPart, lowers
from lowering.ops.nn import pooling
from lowering.ops.nn.window_places import Number, fold
from symjax_nnvm.ops.nn import pooling as windowing
from symjax_nnvm.ops.nn import pooling_v1 as ops


def _edges(p: ops.PoolingV1Params, ndim: int) -> list[tuple[int, int, int]]:
    pads = p.pad if p.pad and not p.global_pool else (0,) * (ndim - 2)
    return [(0, 0, 0)] * 2 + [(pad, pad, 0) for pad in pads]


def _padded(p: ops.PoolingV1Params, x: Array) -> Array:
    """Return the data with zeros on both sides."""
    return lax.pad(x, np.asarray(0, x.dtype), _edges(p, x.ndim))


def _unpadded(p: ops.PoolingV1Params, x: Array) -> Array:
    """Return the transpose of `_padded`."""
    return lax.pad(x, np.asarray(0, x.dtype), [(-low, -high, 0) for low, high, _ in _edges(p, x.ndim)])


@lowers("Pooling_v1", needs=("platform",), by_part=ByPart((0,)))
def _pooling(p: ops.PoolingV1Params, data: Array, *, platform: str) -> Array:
    if p.pool_type == "max":
        return pooling.pool(replace(p.windows, pad=()), _padded(p, data), platform=platform)
    x = data.astype(jnp.promote_types(data.dtype, jnp.float32))
    return (pooling.pool(p.sums, x, platform=platform) * p.scale).astype(data.dtype)


@lowers("_backward_Pooling_v1_max")
def _max_gradient(p: ops.PoolingV1Params, ograd: Array, data: Array, output: Array) -> Array:
    zero = lax.full_like(ograd, 0)
    if p.global_pool:
        return jnp.where(data == output, ograd, zero)
    padded = _padded(p, data)
    w = windowing.windows(replace(p.windows, pad=()), padded.shape)
    reached = pooling.reached(padded, w, -np.inf)
    spread = pooling.overlap_add(
        lambda i, at: at(lax.select(pooling.element(reached, w, i) == output, ograd, zero)), padded.shape, w
    )
    return _unpadded(p, spread)


@lowers("_backward_Pooling_v1_pick")
def _pick(p: ops.PoolingV1Params, value: Array, data: Array, output: Array) -> Array:
    if p.global_pool:
        chosen = jnp.where(data == output, value, lax.full_like(value, 0))
        return jnp.sum(chosen, range(2, data.ndim), keepdims=True, dtype=value.dtype)
    data, value = _padded(p, data), _padded(p, value)
    w = windowing.windows(replace(p.windows, pad=()), data.shape)
    zero = lax.full_like(output, 0)
    data, value = pooling.reached(data, w, -np.inf), pooling.reached(value, w, 0)

    def step(i: Number, total: Array) -> Array:
        chosen = pooling.element(data, w, i) == output
        return total + lax.select(chosen, pooling.element(value, w, i), zero)

    return fold(w.kernel, step, zero)
