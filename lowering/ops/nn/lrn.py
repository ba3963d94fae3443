"""JAX rules of LRN."""

from __future__ import annotations

import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.wide import wide
from symjax_nnvm.ops.nn import lrn as ops
from symjax_nnvm.pipeline import PLAIN

_UNROLLED = 16
"""Up to this many neighbours are added one array after the other, which XLA fuses into one pass over the data."""


def _window_sums(x: Array, nsize: int, platform: str) -> Array:
    """Return the sum of `nsize` channels around each."""
    reach = nsize // 2
    channels = x.shape[1]
    if nsize > _UNROLLED or platform == PLAIN:
        window = [nsize if axis == 1 else 1 for axis in range(x.ndim)]
        padding = [(reach, reach) if axis == 1 else (0, 0) for axis in range(x.ndim)]
        return lax.reduce_window(x, np.asarray(0, x.dtype), lax.add, window, [1] * x.ndim, padding)
    config = [(reach, reach, 0) if axis == 1 else (0, 0, 0) for axis in range(x.ndim)]
    padded = lax.pad(x, np.asarray(0, x.dtype), config)
    parts = [lax.slice_in_dim(padded, i, i + channels, axis=1) for i in range(nsize)]
    return sum(parts[1:], parts[0])


@lowers("LRN", needs=("platform",))
def _lrn(p: ops.LRNParams, data: Array, *, platform: str) -> tuple[Array, Array]:
    x = wide(data)
    norm = p.knorm + (p.alpha / p.nsize) * _window_sums(lax.square(x), p.nsize, platform)
    root = lax.rsqrt(norm)
    factor = root * lax.sqrt(root) if p.beta == ops.FAST_BETA else norm**-p.beta
    return (x * factor).astype(data.dtype), norm.astype(data.dtype)


@lowers("_backward_LRN_window", needs=("platform",))
def _lrn_window(p: ops.LRNWindowParams, data: Array, *, platform: str) -> Array:
    return _window_sums(wide(data), p.nsize, platform).astype(data.dtype)
