"""JAX rules of DeformablePSROIPooling: one sample of all bins at a time.

Channels are split (class, channel, group of y, group of x). Bins of one class share their places; so the maps are one
for each class, pair of groups and image, with the channels of the class last.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.vision.regions import divided, group_of_bin, images, rounded
from lowering.ops.vision.sampling import Border, Taps, sample, spread, taps
from lowering.ops.wide import wide
from symjax_nnvm.ops.vision import deformable_psroi_pooling as ops

_BORDER = Border(-0.5, -0.5, right_slope=False)


def _part_of_bin(p: ops.DeformablePSROIPoolingParams) -> np.ndarray:
    """Return the number of the offset, in an axis, that moves each bin; computed in float32, as MXNet does."""
    bins = np.arange(p.pooled_size, dtype=np.float32) / np.float32(p.pooled_size)
    return np.floor(bins * np.float32(p.parts)).astype(np.int32)


def _offsets(p: ops.DeformablePSROIPoolingParams, trans: Array, axis: int) -> Array:
    """Return the offsets of bins in y (0) or x (1): (r, classes, p, p)."""
    parts = _part_of_bin(p)
    apart = trans.reshape(trans.shape[0], -1, 2, p.parts, p.parts)
    return apart[:, :, 1 - axis][:, :, parts[:, None], parts[None, :]]


@dataclass(frozen=True)
class _Bins:
    """Holds places of the bins of regions, and the maps that they read: arrays of (r, classes, p, p)."""

    p: ops.DeformablePSROIPoolingParams
    order: tuple[int, ...]
    starts: tuple[Array, Array]
    steps: tuple[Array, Array]
    sizes: tuple[int, ...]
    maps: Array
    exists: Array
    factor: Array

    def taps_of(self, number: Array) -> tuple[Taps, Taps]:
        """Return the taps of the sample of a number in all bins."""
        numbers = (number // self.p.sample_per_part, number % self.p.sample_per_part)
        all_taps: list[Taps] = []
        for axis in range(2):
            place = self.starts[axis] + numbers[axis].astype(self.steps[axis].dtype) * self.steps[axis]
            all_taps.append(taps(place, self.sizes[axis], _BORDER, self.order[axis]))
        return all_taps[0], all_taps[1]

    def inside(self, number: Array) -> Array:
        """Return whether the sample of a number is inside the map."""
        numbers = (number // self.p.sample_per_part, number % self.p.sample_per_part)
        is_inside = self.exists
        for axis in range(2):
            place = self.starts[axis] + numbers[axis].astype(self.steps[axis].dtype) * self.steps[axis]
            is_inside = is_inside & (place >= _BORDER.low) & (place <= self.sizes[axis] + _BORDER.high)
        return is_inside

    @property
    def numbers(self) -> Array:
        """Return the numbers of the samples of a bin."""
        return lax.iota(jnp.int32, self.p.sample_per_part**2)

    @property
    def count(self) -> Array:
        """Return the number of samples of each bin that are inside the map, in the dtype of coordinates."""
        inside = jax.vmap(self.inside)(self.numbers)
        return jnp.sum(inside, 0, dtype=self.steps[0].dtype)

    @property
    def share(self) -> Array:
        """Return the weight of a sample in its bin: (r, classes, p, p, 1)."""
        count = self.count
        return jnp.where(count > 0, self.factor / jnp.maximum(count, 1), 0)[..., None]


def _bins(
    p: ops.DeformablePSROIPoolingParams, rois: Array, trans: Array | None, data: tuple[int, ...], order: tuple[int, ...]
) -> _Bins:
    regions = wide(rois)
    corners = rounded(regions[:, 1:5])
    classes = 1 if trans is None else trans.shape[1] // 2
    shape = (rois.shape[0], classes, p.pooled_size, p.pooled_size)
    starts: list[Array] = []
    steps: list[Array] = []
    factor = jnp.ones(shape, regions.dtype)
    for axis in range(2):
        start = corners[:, 1 - axis] * p.spatial_scale - 0.5
        end = (corners[:, 3 - axis] + 1) * p.spatial_scale - 0.5
        size = jnp.maximum(end - start, 0.1)
        step = divided(size, p.pooled_size)
        bins = np.arange(p.pooled_size).reshape((1, 1, -1, 1) if axis == 0 else (1, 1, 1, -1)).astype(regions.dtype)
        start, size, step = (x[:, None, None, None] for x in (start, size, step))
        place = bins * step + start
        if trans is not None:
            place = place + _offsets(p, wide(trans), axis) * p.trans_std * size
            factor = factor * (p.trans_std * size) ** order[axis]
        starts.append(jnp.broadcast_to(place, shape))
        steps.append(step / p.sample_per_part)
    image, exists = images(regions, data[0])
    group = group_of_bin(p.pooled_size, p.group_size).astype(np.int32)
    table = (np.arange(classes, dtype=np.int32)[:, None, None] * p.group_size + group[:, None]) * p.group_size + group
    maps = jnp.asarray(table[None]) * data[0] + image[:, None, None, None]
    exists = jnp.broadcast_to(exists[:, None, None, None], shape)
    return _Bins(p, order, (starts[0], starts[1]), (steps[0], steps[1]), data[2:], maps, exists, factor)


def _channels(p: ops.DeformablePSROIPoolingParams) -> int:
    return p.output_dim * p.group_size**2


def _maps(p: ops.DeformablePSROIPoolingParams, data: Array, classes: int) -> Array:
    """Map (n, output_dim · groups², h, w) → (classes · groups² · n, h, w, output_dim / classes)."""
    n, _, h, w = data.shape
    apart = data[:, : _channels(p)].reshape(n, classes, -1, p.group_size, p.group_size, h, w)
    return apart.transpose(1, 3, 4, 0, 5, 6, 2).reshape(-1, h, w, p.output_dim // classes)


def _from_maps(p: ops.DeformablePSROIPoolingParams, maps: Array, shape: tuple[int, ...], classes: int) -> Array:
    """Return the inverse of `_maps`, with zeros for channels that no bin reads."""
    n, c, h, w = shape
    apart = maps.reshape(classes, p.group_size, p.group_size, n, h, w, -1).transpose(3, 0, 6, 1, 2, 4, 5)
    return jnp.pad(apart.reshape(n, -1, h, w), [(0, 0), (0, c - _channels(p)), (0, 0), (0, 0)])


def _pooled(
    p: ops.DeformablePSROIPoolingParams, data: Array, rois: Array, trans: Array | None, order: tuple[int, ...]
) -> tuple[Array, _Bins]:
    bins = _bins(p, rois, trans, data.shape, order)
    classes = bins.maps.shape[1]
    maps = _maps(p, wide(data), classes)

    def add(total: Array, number: Array) -> tuple[Array, None]:
        is_inside = bins.inside(number)[..., None]
        return total + jnp.where(is_inside, sample(maps, bins.maps, *bins.taps_of(number)), 0), None

    shape = (*bins.maps.shape, maps.shape[-1])
    total, _ = lax.scan(add, jnp.zeros(shape, maps.dtype), bins.numbers)
    return _by_channel(total * bins.share).astype(data.dtype), bins


def _by_channel(values: Array) -> Array:
    """Map (r, classes, p, p, channels of a class) → (r, output_dim, p, p)."""
    r, _, p, q, _ = values.shape
    return values.transpose(0, 1, 4, 2, 3).reshape(r, -1, p, q)


@lowers("_contrib_DeformablePSROIPooling")
def _deformable_psroi_pooling(
    p: ops.DeformablePSROIPoolingParams, data: Array, rois: Array, trans: Array | None = None
) -> tuple[Array, Array]:
    out, bins = _pooled(p, data, rois, trans, (0, 0))
    count = bins.count[..., None]
    repeated = jnp.broadcast_to(count, (*count.shape[:-1], p.output_dim // count.shape[1]))
    return out, _by_channel(repeated).astype(data.dtype)


@lowers("_backward_DeformablePSROIPooling_slopes")
def _slopes(p: ops.SlopesParams, data: Array, rois: Array, trans: Array | None = None) -> Array:
    return _pooled(p, data, rois, trans, p.order)[0]


@lowers("_backward_DeformablePSROIPooling_data")
def _data_gradient(p: ops.SlopesParams, ograd: Array, data: Array, rois: Array, trans: Array | None = None) -> Array:
    bins = _bins(p, rois, trans, data.shape, p.order)
    r, classes, rows, columns = bins.maps.shape
    values = wide(ograd).reshape(r, classes, -1, rows, columns).transpose(0, 1, 3, 4, 2) * bins.share

    def add(total: Array, number: Array) -> tuple[Array, None]:
        is_inside = bins.inside(number)[..., None]
        return spread(jnp.where(is_inside, values, 0), total, bins.maps, *bins.taps_of(number)), None

    zeros = jnp.zeros((classes * p.group_size**2 * data.shape[0], *data.shape[2:], values.shape[-1]), values.dtype)
    maps, _ = lax.scan(add, zeros, bins.numbers)
    return _from_maps(p, maps, data.shape, classes).astype(data.dtype)


@lowers("_backward_DeformablePSROIPooling_trans")
def _to_offsets(p: ops.OffsetParams, ograd: Array, trans: Array) -> Array:
    parts = _part_of_bin(p)
    r, twice, *_ = trans.shape
    values = jnp.sum(ograd.reshape(r, twice // 2, -1, p.pooled_size, p.pooled_size), 2)
    zeros = jnp.zeros((r, twice // 2, 2, p.parts, p.parts), values.dtype)
    added = zeros.at[:, :, 1 - p.axis, parts[:, None], parts[None, :]].add(values)
    return added.reshape(trans.shape)


@lowers("_backward_DeformablePSROIPooling_bins")
def _of_bins(p: ops.OffsetParams, trans: Array) -> Array:
    moved = _offsets(p, trans, p.axis)
    r, classes, *bins = moved.shape
    whole = jnp.broadcast_to(moved[:, :, None], (r, classes, p.output_dim // classes, *bins))
    return whole.reshape(r, p.output_dim, *bins)
