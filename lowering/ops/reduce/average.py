"""JAX rules of average and percentile."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from lowering.ops.wide import wide
from symjax_nnvm.ops.reduce import average as ops
from symjax_nnvm.ops.reduce.reduction import reduced_axes, reduced_shape


@lowers("_weights_like")
def _weights_like(p: ops.WeightsParams, weights: Array, like: Array) -> Array:
    if weights.ndim == like.ndim or p.axis is None:
        return weights
    return lax.broadcast_in_dim(weights, like.shape, (p.axis[0] % like.ndim,))


@lowers("_backward_weights_like")
def _backward_weights_like(p: ops.WeightsParams, ograd: Array, weights: Array, like: Array) -> Array:
    if weights.ndim == like.ndim or p.axis is None:
        return ograd
    return jnp.sum(ograd, [i for i in range(like.ndim) if i != p.axis[0] % like.ndim], dtype=ograd.dtype)


@lowers("_npi_average")
def _average(p: ops.AverageParams, a: Array, weights: Array | None = None) -> tuple[Array, Array]:
    axes = reduced_axes(p.reduction, a.ndim)
    if weights is None:
        total = jnp.sum(a, axes, dtype=a.dtype)
        divisor = jnp.asarray(math.prod(a.shape[axis] for axis in axes), a.dtype)
    else:
        total = jnp.sum(a * _weights_like(p, weights, a), axes, dtype=a.dtype)
        divisor = jnp.sum(weights, axes if weights.ndim == a.ndim else None, dtype=a.dtype)
    return lax.div(total, jnp.broadcast_to(divisor, total.shape)), divisor


@lowers("_npi_percentile")
def _percentile(p: ops.PercentileParams, a: Array, q: Array | None = None) -> Array:
    out = np.dtype(np.float64 if a.dtype == np.float64 else np.float32)
    axes = reduced_axes(p, a.ndim)
    others = [i for i in range(a.ndim) if i not in axes]
    count = math.prod(a.shape[axis] for axis in axes)
    if isinstance(count, int) and not count:
        return jnp.full((*(() if q is None else q.shape), *reduced_shape(p, a.shape)), np.nan, out)
    lines = lax.sort(wide(a).transpose([*others, *axes]).reshape([*(a.shape[i] for i in others), count]))
    percentage = jnp.asarray(p.q_scalar, lines.dtype) if q is None else wide(q).astype(lines.dtype)
    place = jnp.clip(percentage, 0, 100) * (count - 1) / 100
    if p.q_scalar is not None and isinstance(count, int):  # which XLA would multiply by 0.01
        place = jnp.asarray(p.q_scalar * (count - 1) / 100, lines.dtype)
    low, high = jnp.floor(place), jnp.ceil(place)
    if p.interpolation in ("lower", "higher", "nearest"):
        low = high = {"lower": low, "higher": high, "nearest": jnp.floor(place + 0.5)}[p.interpolation]
    below, above = (
        jnp.moveaxis(jnp.take(lines, x.astype(np.int32), axis=-1), -1, 0)
        if x.ndim
        else jnp.take(lines, x.astype(np.int32), axis=-1)
        for x in (low, high)
    )
    part = jnp.asarray(0.5, lines.dtype) if p.interpolation == "midpoint" else place - low
    part = part.reshape(part.shape + (1,) * (below.ndim - part.ndim))
    result = below if p.interpolation in ("lower", "higher", "nearest") else below * (1 - part) + above * part
    return cast(result, out).reshape((*(() if q is None else q.shape), *reduced_shape(p, a.shape)))
