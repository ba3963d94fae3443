"""JAX rules of pooling whole elements in the bins of regions.

Maxima come from tables of the maxima of all rectangles whose sides are powers of two: any bin is covered by four of
them. For a map of h × w elements there are about log₂ h · log₂ w tables, for any regions. Means are products
with weights of rows and of columns.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import Numbers, lowers
from lowering.ops.vision.regions import divided, group_of_bin, images, pool, rounded, stored, unpool
from lowering.ops.wide import wide
from symjax_nnvm.ops.vision import roi_pooling as ops


class _Spans(NamedTuple):
    """The elements of an axis in each bin of each region: [begin, end), of shape (r, bins)."""

    begin: Array
    end: Array


def _spans(start: Array, length: Array, bins: int, size: int, scaled: bool) -> _Spans:
    """Return bins of regions that start somewhere and are so long, cut to whole elements of an axis of a size.

    scaled: round with the start, which is not an integer; else bins are rounded within the region.
    """
    step = divided(length, bins)[:, None]
    begin, end = (stored(jnp.asarray(np.arange(k, bins + k), step.dtype) * step) for k in (0, 1))
    origin = start[:, None]
    if scaled:
        begin, end = jnp.floor(begin + origin), jnp.ceil(end + origin)
    else:
        begin, end = jnp.floor(begin) + origin, jnp.ceil(end) + origin
    return _Spans(*(jnp.clip(edge, 0, size).astype(jnp.int32) for edge in (begin, end)))


# -- maxima ----------------------------------------------------------------------------------------------------------


def _rectangles(p: ops.ROIPoolingParams, rois: Array, sizes: tuple[int, ...]) -> tuple[_Spans, _Spans]:
    """Return the rows (r, p) and columns (r, q) of bins."""
    corners = rounded(rois[:, 1:5] * p.spatial_scale)
    spans: list[_Spans] = []
    for axis in range(2):
        first, last = corners[:, 1 - axis], corners[:, 3 - axis]
        spans.append(_spans(first, jnp.maximum(last - first + 1, 1), p.pooled_size[axis], sizes[axis], scaled=False))
    return spans[0], spans[1]


def _greater(a: tuple[Array, Array], b: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return (value, number) of the greater values, of equal ones that with the lower number."""
    second = (b[0] > a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
    return jnp.where(second, b[0], a[0]), jnp.where(second, b[1], a[1])


def _tables(maps: Array) -> tuple[Array, Array]:
    """Return rows of channels: values and numbers of maxima, over (level of y, level of x, n, h, w).

    Level l of an axis holds the maximum of the 2^l elements from each on; where the axis is shorter, the values are
    never read.
    """
    n, h, w, c = maps.shape
    numbers = jnp.broadcast_to(np.arange(h * w, dtype=np.int32).reshape(1, h, w, 1), (n, h, w, c))
    down = [(maps, numbers)]
    for level in range(1, h.bit_length()):
        down.append(_greater(down[-1], _later(down[-1], 1 << (level - 1), 1)))
    levels: list[tuple[Array, Array]] = []
    for first in down:
        levels.append(first)
        for level in range(1, w.bit_length()):
            levels.append(_greater(levels[-1], _later(levels[-1], 1 << (level - 1), 2)))
    values, places = (jnp.stack(part).reshape(-1, c) for part in zip(*levels, strict=True))
    return values, places


def _later(table: tuple[Array, Array], shift: int, axis: int) -> tuple[Array, Array]:
    return jnp.roll(table[0], -shift, axis), jnp.roll(table[1], -shift, axis)


def _covers(span: _Spans) -> tuple[Array, tuple[Array, Array]]:
    """(level, first elements of the two spans of that level which cover each span); a span may not be empty."""
    level = 31 - lax.clz(span.end - span.begin)
    return level, (span.begin, span.end - (np.int32(1) << level))


@lowers("ROIPooling", numbers=Numbers("There is a table of maxima for each power of two in a map", axes=(2, 3)))
def _roi_pooling(p: ops.ROIPoolingParams, data: Array, rois: Array) -> tuple[Array, Array]:
    n, _, h, w = data.shape
    regions = wide(rois)
    rows, columns = _rectangles(p, regions, (h, w))
    image, exists = images(regions, n)
    filled = (rows.end > rows.begin)[:, :, None] & (columns.end > columns.begin)[:, None, :] & exists[:, None, None]
    # An empty bin reads some element, and does not use it.
    rows, columns = (_whole(span, size) for span, size in ((rows, h), (columns, w)))
    level_y, ys = _covers(rows)
    level_x, xs = _covers(columns)
    table = level_y[:, :, None] * w.bit_length() + level_x[:, None, :]
    base = (table * n + image[:, None, None]) * h
    values, numbers = _tables(data.transpose(0, 2, 3, 1))
    best: tuple[Array, Array] | None = None
    for y, x in itertools.product(ys, xs):
        at = (base + y[:, :, None]) * w + x[:, None, :]
        both = (_read(values, at), _read(numbers, at))
        best = both if best is None else _greater(best, both)
    assert best is not None  # there are four rectangles
    mask = filled[..., None]
    value = jnp.where(mask, best[0], jnp.zeros((), data.dtype))
    number = jnp.where(mask, best[1], np.int32(-1))
    return value.transpose(0, 3, 1, 2), number.transpose(0, 3, 1, 2)


def _whole(span: _Spans, size: int) -> _Spans:
    """Return the spans, with an element in each."""
    begin = jnp.minimum(span.begin, size - 1)
    return _Spans(begin, jnp.maximum(span.end, begin + 1))


def _read(rows: Array, at: Array) -> Array:
    return rows.at[at].get(mode="promise_in_bounds", wrap_negative_indices=False)


def _places(rois: Array, numbers: Array, shape: tuple[int, ...]) -> tuple[tuple[Array, Array, Array], Array]:
    """Return (image, channel and element of each bin; whether it has any)."""
    image, _ = images(wide(rois), shape[0])
    channel = np.arange(shape[1], dtype=np.int32).reshape(1, -1, 1, 1)
    return (image[:, None, None, None], jnp.asarray(channel), jnp.maximum(numbers, 0)), numbers >= 0


@lowers("_backward_ROIPooling")
def _backward_roi_pooling(p: ops.ROIPoolingParams, ograd: Array, maxidx: Array, data: Array, rois: Array) -> Array:
    n, c, h, w = data.shape
    places, exists = _places(rois, maxidx, data.shape)
    values = jnp.where(exists, wide(ograd), 0)
    total = jnp.zeros((n, c, h * w), values.dtype)
    total = total.at[places].add(values, mode="promise_in_bounds", wrap_negative_indices=False)
    return total.reshape(data.shape).astype(data.dtype)


@lowers("_backward_ROIPooling_pick")
def _pick(p: ops.ROIPoolingParams, data: Array, maxidx: Array, rois: Array) -> Array:
    n, c, h, w = data.shape
    places, exists = _places(rois, maxidx, data.shape)
    elements = data.reshape(n, c, h * w).at[places].get(mode="promise_in_bounds", wrap_negative_indices=False)
    return jnp.where(exists, elements, jnp.zeros((), data.dtype))


# -- means -----------------------------------------------------------------------------------------------------------


def _means(p: ops.PSROIPoolingParams, rois: Array, sizes: tuple[int, ...]) -> list[Array]:
    """Return the weights of rows (r, p, h) and of columns (r, p, w) in the means of bins."""
    corners = rounded(rois[:, 1:5])
    means: list[Array] = []
    for axis, size in enumerate(sizes):
        start = stored(corners[:, 1 - axis] * p.spatial_scale)
        end = stored((corners[:, 3 - axis] + 1) * p.spatial_scale)
        span = _spans(start, jnp.maximum(end - start, 0.1), p.pooled_size, size, scaled=True)
        elements = lax.iota(np.int32, size)
        inside = (elements >= span.begin[..., None]) & (elements < span.end[..., None])
        count = jnp.maximum(span.end - span.begin, 1)[..., None].astype(rois.dtype)
        means.append(inside.astype(rois.dtype) / count)
    return means


def _group_maps(p: ops.PSROIPoolingParams, data: Array) -> Array:
    """Map (n, output_dim · groups², h, w) → (n, output_dim, groups, groups, h, w)."""
    n, _, h, w = data.shape
    return data[:, : p.output_dim * p.groups**2].reshape(n, p.output_dim, p.groups, p.groups, h, w)


@lowers("_contrib_PSROIPooling")
def _psroi_pooling(p: ops.PSROIPoolingParams, data: Array, rois: Array) -> Array:
    group = group_of_bin(p.pooled_size, p.groups)
    maps = _group_maps(p, wide(data))[:, :, group][:, :, :, group]
    regions = wide(rois)
    return pool(maps, regions, *_means(p, regions, data.shape[2:])).astype(data.dtype)


@lowers("_backward_PSROIPooling")
def _backward_psroi_pooling(p: ops.PSROIPoolingParams, ograd: Array, data: Array, rois: Array) -> Array:
    n, c, h, w = data.shape
    bins, groups = p.pooled_size, p.groups
    regions = wide(rois)
    g = wide(ograd)
    of_bins = unpool(g, (n, p.output_dim, bins, bins, h, w), regions, *_means(p, regions, (h, w)))
    group = group_of_bin(bins, groups)
    of_groups = jnp.zeros((n, p.output_dim, groups, groups, h, w), g.dtype)
    of_groups = of_groups.at[:, :, group[:, None], group[None, :]].add(of_bins)
    used = of_groups.reshape(n, -1, h, w)
    unused = c - used.shape[1]
    return (jnp.pad(used, [(0, 0), (0, unused), (0, 0), (0, 0)]) if unused else used).astype(data.dtype)
