"""Depth-wise convolution as sums of shifted products, for CPUs.

XLA:CPU runs a convolution with one channel in each group as a naive loop: at data (16, 32, 112, 112), window 3×3, it
takes 175 ms where nine shifted multiply-adds, which fuse into one pass, take 4.6 ms. The gradient of the weight adds up
one sample after the other: nine reductions over the whole batch read everything nine times.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["MAX_WINDOW", "Shifts"]

Array = jax.Array

MAX_WINDOW = 64
"""Windows of more elements than this are left to XLA: each element is an operation of its own in the program."""


@dataclass(frozen=True)
class Shifts:
    """Where a depth-wise convolution's window goes. Axes are those of data and of the output.

    window, stride, dilation: one number for each of the spatial axes. before, after: zeros put around data there.
    """

    channel_axis: int
    spatial_axes: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def over_padded(self) -> Shifts:
        """The same window over data that are padded already, in steps of one."""
        ones, zeros = (1,) * len(self.window), (0,) * len(self.window)
        return replace(self, stride=ones, before=zeros, after=zeros)

    def _padded(self, data: Array) -> Array:
        config = [(0, 0, 0)] * data.ndim
        for axis, low, high in zip(self.spatial_axes, self.before, self.after, strict=True):
            config[axis] = (low, high, 0)
        return lax.pad(data, np.zeros((), data.dtype), config)

    def _parts(self, padded: Array, sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Array]]:
        """For each place in the window, the elements of data that all windows have there; `sizes` of the output."""
        for place in itertools.product(*map(range, self.window)):
            start, limit, stride = [0] * padded.ndim, list(padded.shape), [1] * padded.ndim
            for axis, i, d, s, size in zip(self.spatial_axes, place, self.dilation, self.stride, sizes, strict=True):
                start[axis], stride[axis] = i * d, s
                limit[axis] = i * d + (size - 1) * s + 1
            yield place, lax.slice(padded, start, limit, stride)

    def _factor(self, weight: Array, place: tuple[int, ...], ndim: int) -> Array:
        """The weight's numbers (c,) at a place of the window, to be broadcast along the channels."""
        index: list[int | slice] = [0] * weight.ndim
        index[0] = slice(None)
        for axis, i in zip(self.spatial_axes, place, strict=True):
            index[axis] = i
        return lax.expand_dims(weight[tuple(index)], [i for i in range(ndim) if i != self.channel_axis])

    def convolve(self, data: Array, weight: Array, sizes: Sequence[int]) -> Array:
        """data (n, c, …), weight (c, 1, window…) → (n, c, sizes…); half precision is summed in float32."""
        wide = jnp.promote_types(data.dtype, jnp.float32)
        weight = weight.astype(wide)
        total: Array | None = None
        for place, part in self._parts(self._padded(data), sizes):
            product = part.astype(wide) * self._factor(weight, place, data.ndim)
            total = product if total is None else total + product
        assert total is not None
        return total.astype(data.dtype)

    def weight_gradient(self, data: Array, ograd: Array, weight_shape: tuple[int, ...]) -> Array:
        """data (n, c, …), head gradient (n, c, …) → gradient of weight (c, 1, window…), summed as in `convolve`."""
        padded = self._padded(data)
        sizes = [ograd.shape[axis] for axis in self.spatial_axes]
        axes = [i for i in range(data.ndim) if i != self.channel_axis]

        wide = jnp.promote_types(data.dtype, jnp.float32)

        def add_sample(total: Array, sample: tuple[Array, Array]) -> tuple[Array, None]:
            x, dy = (part[None].astype(wide) for part in sample)
            sums = [jnp.sum(part * dy, axes) for _, part in self._parts(x, sizes)]
            return total + jnp.stack(sums), None

        start = jnp.zeros((prod(self.window), ograd.shape[self.channel_axis]), wide)
        total, _ = lax.scan(add_sample, start, (padded, ograd))
        # (window…, c) → (c, window…), with the axis of one input channel where the layout has it.
        moved = jnp.moveaxis(total.reshape(*self.window, -1), -1, 0)
        return moved.reshape(weight_shape).astype(data.dtype)
