"""The weight's gradient of a depth-wise convolution of two axes, row by row of the output.

A reduction of (places, channels) over the places is a loop over channels for XLA:CPU, each a walk through all memory: 1
GFLOP/s. Adding products of whole rows to a sum for each place of the window stays in the cache and in vectors, and what
remains to be reduced is one row: at batch 16, 112²×32 from 123 to 8 ms, 28²×256 from 68 to 4, 7²×1024 from 22 to 1.
Two rows at once take ten times as long: the sum of their products is no vector code any more.

Where channels are last and windows side by side a row is a vector of places and channels, in which a place of the
window begins at its first channel: as a slice of a matrix that is made a vector afterwards it takes the same time with
jaxlib 0.10 and twice as long with 0.12 (56²×128 16 to 18 and 40 ms), as a matrix of 32 channels twice as long with both
(112²×32 17 to 19 and 38 to 44). Else rows are matrices: of places and channels (stride 2, 112²×64: 6 ms, as vectors
20), or of channels and places, channels first (112²×32: 8 ms; stride 2: 5, where a reduction for each sample takes 13
and 9).
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
    height = ograd.shape[down]
    shape = list(ograd.shape[1:])
    shape[down - 1] = shifts.window[0]
    start = jnp.zeros(shape, wide)
    # As the forward rule pads them: XLA then keeps one array for both.
    padded = shifts.padded(data)
    seen = shifts.dilation[0] * (shifts.window[0] - 1) + 1
    step = shifts.dilation[1]
    if shifts.channel_axis > across and shifts.stride[1] == 1:
        step *= data.shape[-1]
        ograd, padded = (array.reshape(*array.shape[:2], -1) for array in (ograd, padded))
        start = start.reshape(shape[0], -1)
    width = ograd.shape[across]

    def rows(sample: Array, first: Array, count: int) -> Array:
        return lax.dynamic_slice_in_dim(sample, first, count, down - 1).astype(wide)

    def under(part: Array, place: int) -> Array:
        """Return the elements of rows that windows have at a place of theirs."""
        limit = place * step + (width - 1) * shifts.stride[1] + 1
        return lax.slice_in_dim(part, place * step, limit, shifts.stride[1], axis=across - 1)

    def add_sample(totals: list[Array], sample: tuple[Array, Array]) -> tuple[list[Array], None]:
        dys, xs = sample

        def add_row(y: Array, totals: list[Array]) -> list[Array]:
            dy = rows(dys, y, 1)
            met = rows(xs, y * shifts.stride[0], seen)
            met = lax.slice_in_dim(met, 0, seen, shifts.dilation[0], axis=down - 1)
            return [total + under(met, place) * dy for place, total in enumerate(totals)]

        return lax.fori_loop(0, height, add_row, totals), None

    totals, _ = lax.scan(add_sample, [start] * shifts.window[1], (ograd, padded))
    sums = [total.reshape(shape).sum(across - 1) for total in totals]
    if shifts.channel_axis == 1:
        sums = [total.T for total in sums]
    return jnp.stack(sums, 1).astype(data.dtype)
