"""The weight's gradient of a depth-wise convolution of two axes, row by row of the output.

A reduction of (places, channels) over the places is a loop over channels for XLA:CPU, each a walk through all memory: 1
GFLOP/s. Adding products of whole rows to a sum for each place of the window stays in the cache and in vectors, and what
remains to be reduced is one row: at batch 16, 112²×32 from 123 to 12 ms, 28²×256 from 68 to 5, 7²×1024 from 22 to 1.
Two rows at once take ten times as long: the sum of their products is no vector code any more.
"""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from symjax_nnvm.geometry import Geometry

__all__ = ["by_rows"]


def by_rows(ograd: Array, data: Array, g: Geometry) -> Array:
    """Head gradient (n, *out_size, c), data (n, h, w, c) → (*kernel, 1, c); half precision is summed in float32."""
    wide = jnp.promote_types(data.dtype, jnp.float32)
    height, places = g.out_size[0], list(itertools.product(*map(range, g.kernel)))

    def add_row(i: Array, totals: list[Array]) -> list[Array]:
        sample, y = i // height, i % height
        dy = lax.dynamic_slice(ograd, (sample, y, 0, 0), (1, 1, *ograd.shape[2:])).reshape(-1).astype(wide)
        first = y * g.stride[0] - g.pad[0]
        rows = [_row(data, sample, first + a * g.dilate[0], g).astype(wide) for a in range(g.kernel[0])]
        rows = lax.optimization_barrier(rows)  # padded in the cache, once
        return [total + _seen(rows[a], b, g) * dy for total, (a, b) in zip(totals, places, strict=True)]

    start = [jnp.zeros(g.out_size[1] * g.channels, wide)] * len(places)
    totals = lax.fori_loop(0, g.batch * height, add_row, start)
    sums = jnp.stack(totals).reshape(len(places), g.out_size[1], g.channels).sum(1)
    return sums.reshape(*g.kernel, 1, g.channels).astype(data.dtype)


def _row(data: Array, sample: Array, y: Array, g: Geometry) -> Array:
    """Row y of a sample (w, c), zeros where there is none, with zeros at its ends."""
    inside = jnp.clip(y, 0, g.size[0] - 1)
    row = lax.dynamic_slice(data, (sample, inside, 0, 0), (1, 1, *data.shape[2:]))[0, 0]
    row = jnp.where(y == inside, row, np.zeros((), row.dtype))
    return lax.pad(row, np.zeros((), row.dtype), [(g.pad[1], g.pad[1], 0), (0, 0, 0)])


def _seen(row: Array, place: int, g: Geometry) -> Array:
    """The elements of a row that windows have at a place, as one vector."""
    start = place * g.dilate[1]
    limit = start + (g.out_size[1] - 1) * g.stride[1] + 1
    return lax.slice_in_dim(row, start, limit, g.stride[1]).reshape(-1)
