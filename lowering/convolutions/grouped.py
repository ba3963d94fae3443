"""Convolution in groups of few channels as sums of shifted products, for CPUs.

XLA:CPU runs grouped convolutions as naive loops: at data (16, 32, 112, 112), window 3×3, one channel in a group, it
takes 175 ms where nine shifted multiply-adds, which fuse into one pass, take 4.6 ms. The gradient of the weight adds up
one sample after the other: nine reductions over the whole batch read everything nine times.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.convolutions.applicable import MAX_PRODUCTS

__all__ = ["MAX_PRODUCTS", "Shifts"]


@dataclass(frozen=True)
class Shifts:
    """The places of a grouped convolution's window. Axes are those of data, of the output and of the weight.

    groups: group g of the output's channels is made of group g of data's. window, stride, dilation: one number for each
    of the spatial axes. before, after: zeros put around data there.
    """

    groups: int
    channel_axis: int
    spatial_axes: tuple[int, ...]
    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def over_padded(self) -> Shifts:
        """Return the window's places over data that are padded already, in steps of one."""
        ones, zeros = (1,) * len(self.window), (0,) * len(self.window)
        return replace(self, stride=ones, before=zeros, after=zeros)

    def padded(self, data: Array) -> Array:
        """Return data with the zeros around."""
        config = [(0, 0, 0)] * data.ndim
        for axis, low, high in zip(self.spatial_axes, self.before, self.after, strict=True):
            config[axis] = (low, high, 0)
        return lax.pad(data, np.zeros((), data.dtype), config)

    def _parts(self, padded: Array, sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Array]]:
        """Yield for each place in the window, the elements of data that windows have there; `sizes` of the output."""
        for place in itertools.product(*map(range, self.window)):
            start, limit, stride = [0] * padded.ndim, list(padded.shape), [1] * padded.ndim
            for axis, i, d, s, size in zip(self.spatial_axes, place, self.dilation, self.stride, sizes, strict=True):
                start[axis], stride[axis] = i * d, s
                limit[axis] = i * d + (size - 1) * s + 1
            yield place, lax.slice(padded, start, limit, stride)

    def _grouped(self, x: Array) -> Array:
        """Return the channel axis as two: groups, and the channels of each."""
        axis = self.channel_axis
        return x.reshape(*x.shape[:axis], self.groups, x.shape[axis] // self.groups, *x.shape[axis + 1 :])

    def _factor(self, weight: Array, place: tuple[int, ...], channel: int) -> Array:
        """Return the weight's numbers (g, f / g) at a place of the window and an input channel, to be broadcast."""
        index: list[int | slice] = [channel] * weight.ndim
        index[0] = slice(None)
        for axis, i in zip(self.spatial_axes, place, strict=True):
            index[axis] = i
        numbers = weight[tuple(index)].reshape(self.groups, -1)
        others = [i for i in range(weight.ndim + 1) if i not in (self.channel_axis, self.channel_axis + 1)]
        return lax.expand_dims(numbers, others)

    def convolve(self, data: Array, weight: Array, sizes: Sequence[int]) -> Array:
        """data (n, c, …), weight (f, c / g, window…) → (n, f, sizes…); half precision is summed in float32.

        Of one channel in a group nothing is reshaped: XLA would fuse the reshape, and with it the whole sum, into each
        reader, and make it there again.
        """
        wide = jnp.promote_types(data.dtype, jnp.float32)
        weight, axis = weight.astype(wide), self.channel_axis + 1
        depth_wise = weight.shape[0] == self.groups and weight.shape[self.channel_axis] == 1
        total: Array | None = None
        for place, part in self._parts(self.padded(data), sizes):
            grouped = part.astype(wide) if depth_wise else self._grouped(part.astype(wide))
            for channel in range(weight.shape[self.channel_axis]):
                one = grouped if depth_wise else lax.slice_in_dim(grouped, channel, channel + 1, axis=axis)
                factor = self._factor(weight, place, channel)
                product = one * (lax.squeeze(factor, [axis]) if depth_wise else factor)
                total = product if total is None else total + product
        assert total is not None
        shape = [*total.shape[: axis - 1], weight.shape[0], *total.shape[axis + 1 :]]
        return (total if depth_wise else total.reshape(shape)).astype(data.dtype)

    def transposed(self, weight: Array) -> Array:
        """Map weight (f, c / g, window…) → (c, f / g, window…), turned, to carry head gradients back to data."""
        axis = self.channel_axis + 1
        split = lax.rev(weight, self.spatial_axes).reshape(self.groups, -1, *weight.shape[1:])
        swapped = jnp.swapaxes(split, 1, axis)
        return swapped.reshape(-1, *swapped.shape[2:])

    def weight_gradient(self, data: Array, ograd: Array) -> Array:
        """Map data (n, c, …), head gradient (n, f, …) → gradient of weight (f, c / g, window…), as in `convolve`."""
        padded = self.padded(data)
        sizes = [ograd.shape[axis] for axis in self.spatial_axes]
        wide = jnp.promote_types(data.dtype, jnp.float32)
        channels, filters = (x.shape[self.channel_axis] // self.groups for x in (data, ograd))
        others = [i for i in range(data.ndim) if i != self.channel_axis]

        def add_sample(total: Array, sample: tuple[Array, Array]) -> tuple[Array, None]:
            x, dy = (part[None].astype(wide) for part in sample)
            if channels == filters == 1:
                sums = jnp.stack([jnp.sum(part * dy, others) for _, part in self._parts(x, sizes)])
            else:
                sums = self._products(x, dy, sizes)
            return total + sums.reshape(total.shape), None

        start = jnp.zeros((prod(self.window), self.groups, filters, channels), wide)
        total, _ = lax.scan(add_sample, start, (padded, ograd))
        # (window…, g, f / g, c / g) → (f, window…, c / g), and the last axis to where channels are.
        moved = jnp.moveaxis(total.reshape(*self.window, self.groups * filters, channels), -2, 0)
        return jnp.moveaxis(moved, -1, self.channel_axis).astype(data.dtype)

    def _products(self, padded: Array, ograd: Array, sizes: Sequence[int]) -> Array:
        """Return the weight's gradient of one sample, (window…, g, f / g, c / g), as one product of each group.

        The window's places along the first axis are moves of the head gradient, the others moves of data: products of
        (3 · f / g, places) with (3 · c / g, places) for 3×3. Nine products of f / g and c / g, and one with nine
        times as many channels, take more than half as long again (batch 8, 28²×128 in 32 groups: 3.7, 6.0 and 6.5 ms).
        """
        axis, reach = self.spatial_axes[0], self.dilation[0] * (self.window[0] - 1)
        length = (sizes[0] - 1) * self.stride[0] + reach + 1
        along = replace(self, window=(1, *self.window[1:]), stride=(1, *self.stride[1:]))
        config = [(0, 0, 0)] * ograd.ndim
        moved = []
        for place in range(self.window[0]):
            before = place * self.dilation[0]
            config[axis] = (before, reach - before, self.stride[0] - 1)
            moved.append(lax.pad(ograd, np.zeros((), ograd.dtype), config))
        parts = [part for _, part in along._parts(padded, [length, *sizes[1:]])]
        products = jnp.einsum("gis,gjs->gij", self._by_channel(moved), self._by_channel(parts))
        split = products.reshape(
            self.groups, -1, len(moved), padded.shape[self.channel_axis] // self.groups, len(parts)
        )
        return jnp.transpose(split, (2, 4, 0, 1, 3))

    def _by_channel(self, samples: Sequence[Array]) -> Array:
        """Map arrays (1, c, …) → (g, c / g · arrays, everything else)."""
        beside = jnp.stack([jnp.moveaxis(sample[0], self.channel_axis - 1, 0) for sample in samples], 1)
        return beside.reshape(self.groups, len(samples) * beside.shape[0] // self.groups, -1)
