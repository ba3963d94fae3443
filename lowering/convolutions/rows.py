"""The weight's gradient of a depth-wise convolution of two axes, row by row of the output.

A reduction of (places, channels) over the places is a loop over channels for XLA:CPU, each a walk through all memory: 1
GFLOP/s. Adding products of whole rows to a sum for each place of the window stays in the cache and in vectors, and what
remains to be reduced is one row: at batch 16, 112²×32 from 123 to 8 ms, 28²×256 from 68 to 4, 7²×1024 from 22 to 1.
Two rows at once take ten times as long: the sum of their products is no vector code any more.

What is summed are vectors of whole rows where windows lie beside one another (112²×32: 7.5 ms, as matrices 29), else
matrices of places and channels (stride 2, 112²×64: 6 ms, as vectors 20).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from symjax_nnvm.geometry import Geometry

__all__ = ["by_rows"]


def by_rows(ograd: Array, data: Array, g: Geometry) -> Array:
    """Head gradient (n, *out_size, c), data (n, h, w, c) → (*kernel, 1, c); half precision is summed in float32.

    The sums of all places of a column of the window are one array: a third of the loops to compile and to start.
    """
    wide = jnp.promote_types(data.dtype, jnp.float32)
    (height, width), (column, line) = g.out_size, g.kernel
    # As the forward rule pads them: XLA then keeps one array for both.
    padded = lax.pad(data, np.zeros((), data.dtype), [(0, 0, 0), *((pad, pad, 0) for pad in g.pad), (0, 0, 0)])
    seen = g.dilate[0] * (column - 1) + 1
    row = (width * g.channels,) if g.stride[1] == 1 else (width, g.channels)

    def add_row(i: Array, totals: list[Array]) -> list[Array]:
        sample, y = i // height, i % height
        dy = lax.dynamic_slice(ograd, (sample, y, 0, 0), (1, 1, *ograd.shape[2:])).reshape(1, *row).astype(wide)
        first = (sample, y * g.stride[0], 0, 0)
        rows = lax.dynamic_slice(padded, first, (1, seen, *padded.shape[2:]))[0, :: g.dilate[0]]
        under = [_under(rows, place, g).reshape(column, *row) for place in range(line)]
        return [total + part.astype(wide) * dy for total, part in zip(totals, under, strict=True)]

    start = [jnp.zeros((column, *row), wide)] * line
    totals = lax.fori_loop(0, g.batch * height, add_row, start)
    sums = [total.reshape(column, width, g.channels).sum(1) for total in totals]
    return jnp.stack(sums, 1)[:, :, None].astype(data.dtype)


def _under(rows: Array, place: int, g: Geometry) -> Array:
    """The elements of rows (…, w, c) that windows have at a place of theirs."""
    start = place * g.dilate[1]
    limit = start + (g.out_size[1] - 1) * g.stride[1] + 1
    return lax.slice_in_dim(rows, start, limit, g.stride[1], axis=1)
