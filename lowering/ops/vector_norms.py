"""JAX rules of L2Normalization, LRN and moments."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.registry import lowers
from symjax_nnvm.ops import vector_norms as ops
from symjax_nnvm.ops.reduction import reduced_axes, reduced_shape

Array = jax.Array

_UNROLLED = 16
"""Up to this many neighbours are added one array after the other, which XLA fuses into one pass over the data."""


def _wide(x: Array) -> Array:
    """Half precision is computed in float32."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


@lowers("L2Normalization")
def _l2_normalization(p: ops.L2NormalizationParams, data: Array) -> tuple[Array, Array]:
    x = _wide(data)
    axes = reduced_axes(ops.norm_reduction(p), x.ndim)
    norm = lax.sqrt(jnp.sum(lax.square(x), axes, keepdims=True) + p.eps)
    return (x / norm).astype(data.dtype), norm.astype(data.dtype)


def _window_sums(x: Array, nsize: int) -> Array:
    """The sum of `nsize` channels around each."""
    reach = nsize // 2
    channels = x.shape[1]
    if nsize > _UNROLLED:
        window = [nsize if axis == 1 else 1 for axis in range(x.ndim)]
        padding = [(reach, reach) if axis == 1 else (0, 0) for axis in range(x.ndim)]
        return lax.reduce_window(x, np.asarray(0, x.dtype), lax.add, window, [1] * x.ndim, padding)
    config = [(reach, reach, 0) if axis == 1 else (0, 0, 0) for axis in range(x.ndim)]
    padded = lax.pad(x, np.asarray(0, x.dtype), config)
    parts = [lax.slice_in_dim(padded, i, i + channels, axis=1) for i in range(nsize)]
    return sum(parts[1:], parts[0])


@lowers("LRN")
def _lrn(p: ops.LRNParams, data: Array) -> tuple[Array, Array]:
    x = _wide(data)
    norm = p.knorm + (p.alpha / p.nsize) * _window_sums(lax.square(x), p.nsize)
    root = lax.rsqrt(norm)
    factor = root * lax.sqrt(root) if p.beta == ops.FAST_BETA else norm**-p.beta
    return (x * factor).astype(data.dtype), norm.astype(data.dtype)


@lowers("_backward_LRN_window")
def _lrn_window(p: ops.WindowParams, data: Array) -> Array:
    return _window_sums(_wide(data), p.nsize).astype(data.dtype)


@lowers("moments")
def _moments(p: ops.MomentsParams, data: Array) -> tuple[Array, Array]:
    axes = reduced_axes(p.reduction, data.ndim)
    shape = reduced_shape(p.reduction, data.shape)
    if jnp.issubdtype(data.dtype, jnp.floating):
        x = _wide(data)
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
