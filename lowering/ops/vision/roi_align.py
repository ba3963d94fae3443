"""JAX rules of ROIAlign, upright and rotated.

With a given number of samples per bin these are gathered, one of all bins at a time. A number that follows from the
regions would make shapes depend on data; upright bins are then products of an axis' weights, into which any number of
samples adds up, and the means are matrix products. Rotated ones loop as long as any region has samples.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.vision.regions import divided, images, pool, unpool
from lowering.ops.vision.sampling import Border, Taps, sample, spread, taps
from lowering.ops.wide import wide
from symjax_nnvm.ops.vision import roi_align as ops

_BORDER = Border(-1, 0)

_NEAR = 6
"""At least as many samples as are within one element of an element, where a bin has more samples than that: they are
then 6/7 of an element apart or more."""

# -- upright regions -------------------------------------------------------------------------------------------------


def _axis(p: ops.ROIAlignParams, rois: Array, axis: int) -> tuple[Array, Array, Array]:
    """Return (start, size of a bin, number of samples in a bin) of each region along y (0) or x (1)."""
    middle = 0.5 if p.aligned else 0.0
    start = rois[:, 2 - axis] * p.spatial_scale - middle
    length = rois[:, 4 - axis] * p.spatial_scale - middle - start
    if not p.aligned:
        length = jnp.maximum(length, 1)
    size = divided(length, p.pooled_size[axis])
    count = jnp.ceil(size) if p.sample_ratio <= 0 else jnp.full_like(size, p.sample_ratio)
    return start, size, count


def _coordinates(start: Array, size: Array, count: Array, bins: int, number: Array) -> Array:
    """Return coordinates of the samples of a number in each bin: (r, bins, …) for numbers (r or 1, bins or 1, …)."""
    shape = (-1, *[1] * (number.ndim - 1))
    start, size, count = (x.reshape(shape) for x in (start, size, count))
    bin_ = np.arange(bins).reshape(1, -1, *[1] * (number.ndim - 2)).astype(size.dtype)
    return start + bin_ * size + (number.astype(size.dtype) + 0.5) * size / count


def _weights(p: ops.ROIAlignParams, rois: Array, axis: int, size: int) -> Array:
    """Return the weight of each element of an axis in the mean of each bin (r, bins, size), for any number of
    samples."""
    start, length, count = _axis(p, rois, axis)
    count = jnp.maximum(count, 1)
    bins = p.pooled_size[axis]
    zeroth = _coordinates(start, length, count, bins, jnp.zeros((1, 1, 1), jnp.int32))
    spacing = (length / count)[:, None, None]
    elements = jnp.arange(size, dtype=length.dtype)
    nearest = jnp.floor((elements - 1 - zeroth) / jnp.where(spacing > 0, spacing, 1))
    first = jnp.clip(nearest, 0, jnp.maximum(count - _NEAR, 0)[:, None, None])
    total = jnp.zeros(first.shape, length.dtype)
    for i in range(_NEAR):
        number = first + i
        at = _coordinates(start, length, count, bins, number)
        near = jnp.maximum(1 - jnp.abs(jnp.clip(at, 0, size - 1) - elements), 0)
        is_valid = (number < count[:, None, None]) & (at >= _BORDER.low) & (at <= size + _BORDER.high)
        total = total + jnp.where(is_valid, near, 0)
    return total / count[:, None, None]


def _maps(p: ops.ROIAlignParams, data: Array) -> Array:
    """Return data, with the axes of bins apart if they have maps of their own: (n, c, p, q, h, w)."""
    if not p.position_sensitive:
        return data
    n, c, h, w = data.shape
    bins = p.pooled_size
    return data.reshape(n, c // (bins[0] * bins[1]), *bins, h, w)


def _channels_last(p: ops.ROIAlignParams, data: Array) -> Array:
    """Return maps (maps, h, w, c): an image each, or in order p, q, n if bins have maps of their own."""
    maps = _maps(p, data)
    if p.position_sensitive:
        maps = maps.transpose(2, 3, 0, 4, 5, 1)
        return maps.reshape(-1, *maps.shape[3:])
    return maps.transpose(0, 2, 3, 1)


def _from_channels_last(p: ops.ROIAlignParams, maps: Array, shape: tuple[int, ...]) -> Array:
    """Return the inverse of `_channels_last`."""
    if not p.position_sensitive:
        return maps.transpose(0, 3, 1, 2)
    return maps.reshape(*p.pooled_size, shape[0], *maps.shape[1:]).transpose(2, 5, 0, 1, 3, 4).reshape(shape)


def _map_numbers(p: ops.ROIAlignParams, number: Array, count: int) -> Array:
    """Return the number of the map of each bin: (r, p or 1, q or 1)."""
    number = number[:, None, None]
    if not p.position_sensitive:
        return number
    bins = np.arange(p.pooled_size[0] * p.pooled_size[1], dtype=np.int32).reshape(1, *p.pooled_size)
    return number + bins * count


def _upright_samples(
    p: ops.ROIAlignParams, rois: Array, sizes: tuple[int, ...]
) -> Callable[[Array], tuple[Taps, Taps]]:
    """Return a function: number of a sample → its taps in all bins: (r, p, 1) and (r, 1, q)."""
    axes = [_axis(p, rois, axis) for axis in range(2)]

    def taps_of(number: Array) -> tuple[Taps, Taps]:
        numbers = (number // p.sample_ratio, number % p.sample_ratio)
        all_taps: list[Taps] = []
        for axis in range(2):
            coordinates = _coordinates(*axes[axis], p.pooled_size[axis], numbers[axis].reshape(1, 1))
            all_taps.append(taps(jnp.expand_dims(coordinates, 2 - axis), sizes[axis], _BORDER))
        return all_taps[0], all_taps[1]

    return taps_of


def _mean_of_samples(
    maps: Array,
    numbers: Array,
    exists: Array,
    count: int,
    at: Callable[[Array], tuple[Taps, Taps]],
    shape: tuple[int, ...],
) -> Array:
    """Return the mean of `count` samples in each bin: (r, p, q, c)."""
    weight = exists[:, None, None, None].astype(maps.dtype) / count

    def add(total: Array, number: Array) -> tuple[Array, None]:
        return total + sample(maps, numbers, *at(number)), None

    total, _ = lax.scan(add, jnp.zeros(shape, maps.dtype), lax.iota(jnp.int32, count))
    return total * weight


def _spread_samples(
    values: Array, maps: Array, numbers: Array, exists: Array, count: int, at: Callable[[Array], tuple[Taps, Taps]]
) -> Array:
    """Return the transpose of `_mean_of_samples`: maps with values (r, p, q, c) added where they were sampled."""
    values = values * (exists[:, None, None, None].astype(values.dtype) / count)

    def add(total: Array, number: Array) -> tuple[Array, None]:
        return spread(values, total, numbers, *at(number)), None

    return lax.scan(add, maps, lax.iota(jnp.int32, count))[0]


@lowers("_contrib_ROIAlign")
def _roi_align(p: ops.ROIAlignParams, data: Array, rois: Array) -> Array:
    x, regions = wide(data), wide(rois)
    n, _, *sizes = data.shape
    if p.sample_ratio <= 0:
        weights = [_weights(p, regions, axis, size) for axis, size in enumerate(sizes)]
        return pool(_maps(p, x), regions, *weights).astype(data.dtype)
    maps = _channels_last(p, x)
    number, exists = images(regions, n)
    shape = (rois.shape[0], *p.pooled_size, maps.shape[-1])
    at = _upright_samples(p, regions, (sizes[0], sizes[1]))
    mean = _mean_of_samples(maps, _map_numbers(p, number, n), exists, p.sample_ratio**2, at, shape)
    return mean.transpose(0, 3, 1, 2).astype(data.dtype)


@lowers("_backward_ROIAlign")
def _backward_roi_align(p: ops.ROIAlignParams, ograd: Array, data: Array, rois: Array) -> Array:
    g, regions = wide(ograd), wide(rois)
    n, _, *sizes = data.shape
    if p.sample_ratio <= 0:
        weights = [_weights(p, regions, axis, size) for axis, size in enumerate(sizes)]
        shape = jax.eval_shape(lambda x: _maps(p, x), data).shape
        return unpool(g, shape, regions, *weights).reshape(data.shape).astype(data.dtype)
    zeros = jnp.zeros(jax.eval_shape(lambda x: _channels_last(p, x), data).shape, g.dtype)
    number, exists = images(regions, n)
    at = _upright_samples(p, regions, (sizes[0], sizes[1]))
    values = g.transpose(0, 2, 3, 1)
    maps = _spread_samples(values, zeros, _map_numbers(p, number, n), exists, p.sample_ratio**2, at)
    return _from_channels_last(p, maps, data.shape).astype(data.dtype)


# -- rotated regions -------------------------------------------------------------------------------------------------


class _Rotated:
    """The samples of rotated regions: how many each region has in a bin, and where."""

    def __init__(self, p: ops.RROIAlignParams, rois: Array, sizes: tuple[int, ...]) -> None:
        scale = p.spatial_scale
        self.centre = (rois[:, 2] * scale, rois[:, 1] * scale)
        lengths = [jnp.maximum(rois[:, 4 - axis] * scale, 1) for axis in range(2)]
        self.starts = [length / -2 for length in lengths]
        self.bins = [divided(length, bins) for length, bins in zip(lengths, p.pooled_size, strict=True)]
        ratio = p.sampling_ratio
        self.counts = [jnp.ceil(size) if ratio <= 0 else jnp.full_like(size, ratio) for size in self.bins]
        angle = rois[:, 5] * (np.pi / 180)
        self.cosine, self.sine = (f(angle)[:, None, None] for f in (jnp.cos, jnp.sin))
        self.pooled, self.sizes = p.pooled_size, sizes

    @property
    def count(self) -> Array:
        """Return the number of samples in a bin of each region."""
        return (self.counts[0] * self.counts[1]).astype(jnp.int32)

    def taps_of(self, number: Array) -> tuple[Taps, Taps]:
        """Return the taps of the sample of a number in all bins: (r, p, q)."""
        across = self.counts[1].astype(jnp.int32)
        numbers = (number // across, number % across)
        y, x = (
            jnp.expand_dims(_coordinates(start, size, count, bins, one[:, None]), 2 - axis)
            for axis, (start, size, count, bins, one) in enumerate(
                zip(self.starts, self.bins, self.counts, self.pooled, numbers, strict=True)
            )
        )
        turned_y = y * self.cosine - x * self.sine + self.centre[0][:, None, None]
        turned_x = x * self.cosine + y * self.sine + self.centre[1][:, None, None]
        return taps(turned_y, self.sizes[0], _BORDER), taps(turned_x, self.sizes[1], _BORDER)

    def share(self, number: Array, exists: Array) -> Array:
        """Return the weight of the sample of a number in the mean of each region's bins: (r, 1, 1, 1)."""
        dtype = self.bins[0].dtype
        is_valid = (number < self.count) & exists
        return jnp.where(is_valid, 1 / self.count.astype(dtype), jnp.zeros((), dtype))[:, None, None, None]


def _for_every_sample(
    p: ops.RROIAlignParams, regions: _Rotated, body: Callable[[Array, Array], Array], initial: Array
) -> Array:
    if p.sampling_ratio > 0:
        numbers = lax.iota(jnp.int32, p.sampling_ratio**2)
        return lax.scan(lambda total, number: (body(number, total), None), initial, numbers)[0]
    most = jnp.max(regions.count, initial=0)
    return lax.fori_loop(0, most, body, initial)


@lowers("_contrib_RROIAlign")
def _rroi_align(p: ops.RROIAlignParams, data: Array, rois: Array) -> Array:
    maps = wide(data).transpose(0, 2, 3, 1)
    regions = _Rotated(p, wide(rois), data.shape[2:])
    number, exists = images(wide(rois), data.shape[0])

    def add(i: Array, total: Array) -> Array:
        return total + regions.share(i, exists) * sample(maps, number[:, None, None], *regions.taps_of(i))

    zeros = jnp.zeros((rois.shape[0], *p.pooled_size, data.shape[1]), maps.dtype)
    return _for_every_sample(p, regions, add, zeros).transpose(0, 3, 1, 2).astype(data.dtype)


@lowers("_backward_RROIAlign")
def _backward_rroi_align(p: ops.RROIAlignParams, ograd: Array, data: Array, rois: Array) -> Array:
    values = wide(ograd).transpose(0, 2, 3, 1)
    regions = _Rotated(p, wide(rois), data.shape[2:])
    number, exists = images(wide(rois), data.shape[0])

    def add(i: Array, total: Array) -> Array:
        return spread(regions.share(i, exists) * values, total, number[:, None, None], *regions.taps_of(i))

    n, c, h, w = data.shape
    zeros = jnp.zeros((n, h, w, c), values.dtype)
    return _for_every_sample(p, regions, add, zeros).transpose(0, 3, 1, 2).astype(data.dtype)
