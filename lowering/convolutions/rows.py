"""The weight's gradient of a depth-wise convolution of two axes, row by row of the output.

A reduction of (places, channels) over the places is a loop over channels for XLA:CPU, each a walk through all memory: 1
GFLOP/s. Adding products of whole rows to a sum for each place of the window stays in the cache and in vectors, and what
remains to be reduced is one row: at batch 16, 112²×32 from 123 to 8 ms, 28²×256 from 68 to 4, 7²×1024 from 22 to 1.
Two rows at once take ten times as long: the sum of their products is no vector code any more.

The sums are of vectors of whole rows where channels are last and windows are side by side (112²×32: 7.5 ms, as
matrices 29), else matrices: of places and channels (stride 2, 112²×64: 6 ms, as vectors 20), or of channels and places,
channels first (112²×32: 8 ms; stride 2: 5, where a reduction for each sample takes 13 and 9).
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.convolutions.grouped import Shifts

__all__ = ["by_rows"]


def by_rows(ograd: Array, data: Array, shifts: Shifts) -> Array:
    """Map head gradient and data in the order that shifts say → (*window, c); half precision is summed in float32.

    The sums of all places of a column of the window are one array: a third of the loops to compile and to start.
    """
    wide = jnp.promote_types(data.dtype, jnp.float32)
    down, across = shifts.spatial_axes
    height, width = ograd.shape[down], ograd.shape[across]
    # As the forward rule pads them: XLA then keeps one array for both.
    padded = shifts.padded(data)
    seen = shifts.dilation[0] * (shifts.window[0] - 1) + 1
    is_flat = shifts.channel_axis > across and shifts.stride[1] == 1

    def rows(array: Array, sample: Array, first: Array, count: int) -> Array:
        """Return some rows of one sample, without the axis of samples."""
        start, size = [0] * array.ndim, [1, *array.shape[1:]]
        start[0], start[down], size[down] = sample, first, count  # pyright: ignore[reportCallIssue, reportArgumentType]
        return lax.dynamic_slice(array, start, size)[0].astype(wide)

    def under(part: Array, place: int) -> Array:
        """Return the elements of rows that windows have at a place of theirs."""
        start = place * shifts.dilation[1]
        limit = start + (width - 1) * shifts.stride[1] + 1
        return lax.slice_in_dim(part, start, limit, shifts.stride[1], axis=across - 1)

    def laid(part: Array) -> Array:
        return part.reshape(part.shape[0], -1) if is_flat else part

    def add_row(i: Array, totals: list[Array]) -> list[Array]:
        sample, y = i // height, i % height
        dy = laid(rows(ograd, sample, y, 1))
        met = rows(padded, sample, y * shifts.stride[0], seen)
        met = lax.slice_in_dim(met, 0, seen, shifts.dilation[0], axis=down - 1)
        return [total + laid(under(met, place)) * dy for place, total in enumerate(totals)]

    shape = list(ograd.shape[1:])
    shape[down - 1] = shifts.window[0]
    start = jnp.zeros((shape[0], width * shape[2]) if is_flat else shape, wide)
    totals = lax.fori_loop(0, ograd.shape[0] * height, add_row, [start] * shifts.window[1])
    sums = [total.reshape(shape).sum(across - 1) for total in totals]
    if shifts.channel_axis == 1:
        sums = [total.T for total in sums]
    return jnp.stack(sums, 1).astype(data.dtype)
