"""The weight's gradient of a depth-wise convolution of two axes, row by row of the output.

A reduction of (places, channels) over the places is a loop over channels for XLA:CPU, each a walk through all memory: 1
GFLOP/s. Adding products of whole rows to a sum for each place of the window stays in the cache and in vectors, and what
remains to be reduced is one row: at batch 16, 112²×32 from 123 to 8 ms, 28²×256 from 68 to 4, 7²×1024 from 22 to 1.
The products of two rows are added at once, for which the sums are read and written once: 0.78 to 0.97 of the time.

Where channels are last and windows side by side a row is a vector of places and channels, in which a place of the
window begins at its first channel: as a slice of a matrix that is made a vector afterwards it takes the same time with
jaxlib 0.10 and twice as long with 0.12 (56²×128 16 to 18 and 40 ms), as a matrix of 32 channels twice as long with both
(112²×32 17 to 19 and 38 to 44). Else rows are matrices: of places and channels (stride 2, 112²×64: 6 ms, as vectors
20), or of channels and places, channels first (112²×32: 8 ms; stride 2: 5, where a reduction for each sample takes 13
and 9).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.convolutions.grouped import Shifts

__all__ = ["by_rows"]


def by_rows(ograd: Array, data: Array, shifts: Shifts) -> Array:
    """Map head gradient and data, in the order of `shifts` → (*window, c); half precision is summed in float32.

    The sums of all places of a column of the window are one array: a third of the loops to compile and to start.
    Zeros are put around one sample after the other, in memory that stays in the cache: at batch 8, on one core, 112²×64
    with stride 2 takes 4 ms instead of 7, 56²×128 5 instead of 7.
    """
    wide = jnp.promote_types(data.dtype, jnp.float32)
    down, across = shifts.spatial_axes
    height = ograd.shape[down]
    shape = list(ograd.shape[1:])
    shape[down - 1] = shifts.window[0]
    sizes = list(data.shape[1:])
    for axis, low, high in zip(shifts.spatial_axes, shifts.before, shifts.after, strict=True):
        sizes[axis - 1] += low + high
    window_rows = shifts.dilation[0] * (shifts.window[0] - 1) + 1
    step, first = shifts.dilation[1], shifts.before[1]
    folded = shifts.channel_axis > across and shifts.stride[1] == 1
    if folded:
        step, first = step * data.shape[-1], first * data.shape[-1]
        ograd, data = (array.reshape(*array.shape[:2], -1) for array in (ograd, data))
    start, padded = jnp.zeros(shape, wide), jnp.zeros(sizes, data.dtype)
    if folded:
        start, padded = (zeros.reshape(zeros.shape[0], -1) for zeros in (start, padded))
    width = ograd.shape[across]
    corner = [0] * padded.ndim
    corner[down - 1], corner[across - 1] = shifts.before[0], first

    def rows(sample: Array, first: Array | int, count: int) -> Array:
        return lax.dynamic_slice_in_dim(sample, first, count, down - 1).astype(wide)

    def under(part: Array, place: int) -> Array:
        """Return the elements of rows that windows have at a place of theirs."""
        limit = place * step + (width - 1) * shifts.stride[1] + 1
        return lax.slice_in_dim(part, place * step, limit, shifts.stride[1], axis=across - 1)

    def add_sample(carried: tuple[list[Array], Array], sample: tuple[Array, Array]) -> tuple[Any, None]:
        (totals, around), (dys, xs) = carried, sample
        padded = lax.dynamic_update_slice(around, xs, corner)

        def products(y: Array | int) -> list[Array]:
            dy = rows(dys, y, 1)
            met = rows(padded, y * shifts.stride[0], window_rows)
            met = lax.slice_in_dim(met, 0, window_rows, shifts.dilation[0], axis=down - 1)
            return [under(met, place) * dy for place in range(shifts.window[1])]

        def add_rows(i: Array, totals: list[Array]) -> list[Array]:
            pairs = zip(products(2 * i), products(2 * i + 1), strict=True)
            return [total + (one + other) for total, (one, other) in zip(totals, pairs, strict=True)]

        totals = lax.fori_loop(0, height // 2, add_rows, totals)
        if height % 2:
            totals = [total + last for total, last in zip(totals, products(height - 1), strict=True)]
        return (totals, padded), None

    (totals, _), _ = lax.scan(add_sample, ([start] * shifts.window[1], padded), (ograd, data))
    sums = [total.reshape(shape).sum(across - 1) for total in totals]
    if shifts.channel_axis == 1:
        sums = [total.T for total in sums]
    return jnp.stack(sums, 1).astype(data.dtype)
