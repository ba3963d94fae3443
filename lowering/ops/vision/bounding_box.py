"""JAX rules of operators on bounding boxes, and the greedy algorithms that detection shares.

Suppression and matching have static shapes: a mask marks the boxes that are left. Both are loops whose every step works
on whole arrays, and which end as soon as nothing can change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from lowering.ops.indexing.sort import places_of_largest
from lowering.ops.wide import wide
from symjax_nnvm.ir.rules.size_symbols import is_open
from symjax_nnvm.ops.vision import bounding_box as ops

Sides = Sequence[Array]

# -- shared algorithms -----------------------------------------------------------------------------------------------

at_once = partial(jax.jit, static_argnums=0)
"""Makes one computation of a rule, also where a graph runs without jit: its many small steps would be compiled and
dispatched one at a time."""


def columns(rows: Array) -> list[Array]:
    """The elements of the last axis, each an array: loops go through them several times as fast as through rows."""
    return [rows[..., i] for i in range(rows.shape[-1])]


def over_batches(function: Callable[..., Any], ndim: int) -> Callable[..., Any]:
    """A function of arrays with `ndim` axes, applied along all axes before those."""

    def mapped(array: Array) -> Any:
        batch = array.shape[: array.ndim - ndim]
        results = jax.vmap(function)(array.reshape(-1, *array.shape[array.ndim - ndim :]))
        return jax.tree.map(lambda x: x.reshape(*batch, *x.shape[1:]), results)

    return mapped


def descending(scores: Array, valid: Array, count: int | None = None) -> Array:
    """The places of scores (n,), best first, ties in order, those that are not valid at the end: int32.

    count: how many places are wanted; a few are found many times as fast as all are sorted (400 of 8732 on a CPU:
    0.1 ms against 2 ms).
    """
    if count is not None and not is_open(scores.shape[0]) and count < scores.shape[0]:
        return places_of_largest(jnp.where(valid, scores, -np.inf), count)
    return jnp.argsort(jnp.where(valid, -scores, np.inf), stable=True).astype(np.int32)[:count]


def in_front(mask: Array) -> Array:
    """The places where a mask (n,) holds, in order, then -1: int32."""
    return jnp.nonzero(mask, size=mask.shape[0], fill_value=-1)[0].astype(np.int32)


def survivors(candidates: Array, rivals: Callable[[Array], Array], limit: int | None = None) -> Array:
    """Greedy suppression: candidates (n,) in order, each of which removes its later rivals unless it is removed.

    rivals(i): (n,) booleans, the candidates to remove if i stays. limit: stop when this number stays. The loop has one
    step for each candidate that stays, not for each candidate.
    """
    n = candidates.shape[0]
    places = lax.iota(np.int32, n)

    def next_after(place: Array | int, remaining: Array) -> Array:
        return jnp.min(jnp.where(remaining & (places > place), places, n), initial=n)

    def goes_on(state: tuple[Array, Array, Array]) -> Array:
        _, best, count = state
        return (best < n) & (count < (n if limit is None else limit))

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        remaining, best, count = state
        remaining = remaining & ~(rivals(best) & (places > best))
        return remaining, next_after(best, remaining), count + 1

    start = (candidates, next_after(-1, candidates), jnp.zeros((), np.int32))
    remaining, end, _ = lax.while_loop(goes_on, step, start)
    return remaining & (places < end)


def greedy_pairs(scores: Array, threshold: Any) -> tuple[Array, Array]:
    """Rows and columns of scores (r, c), paired greedily: the best pair first, ties in the matrix's order.

    A pair needs more than the threshold. Returns each row's column (r,) and each column's row (c,), -1 for none.

    A pair that is the best of its free row and of its free column is one of the greedy pairs for any others:
    all such pairs are made at once. Two or three rounds usually suffice, where one pair at a time takes min(r, c).
    """
    rows, columns = scores.shape
    row_numbers, column_numbers = lax.iota(np.int32, rows), lax.iota(np.int32, columns)

    def best(free: Array, axis: int) -> tuple[Array, Array]:
        """Return (place, whether it is good enough) of the best along an axis; the first of equals."""
        place = jnp.argmax(free, axis).astype(np.int32)
        return place, jnp.max(free, axis) > threshold

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        of_row, of_column, _ = state
        is_free = (of_row < 0)[:, None] & (of_column < 0)
        free = jnp.where(is_free, scores, -np.inf)
        column, row_is_good = best(free, 1)
        row, column_is_good = best(free, 0)
        new_row = row_is_good & (row[column] == row_numbers)
        new_column = column_is_good & (column[row] == column_numbers)
        return jnp.where(new_row, column, of_row), jnp.where(new_column, row, of_column), jnp.any(new_row)

    start = jnp.full((rows,), -1, np.int32), jnp.full((columns,), -1, np.int32), jnp.asarray(True)
    of_row, of_column, _ = lax.while_loop(lambda state: state[2], step, start)
    return of_row, of_column


# -- overlap ---------------------------------------------------------------------------------------------------------


def sides(boxes: Array, form: str = "corner") -> Sides:
    """left, top, right, bottom of boxes (…, 4)."""
    a, b, c, d = columns(boxes)
    return [a, b, c, d] if form == "corner" else [a - c / 2, b - d / 2, a + c / 2, b + d / 2]


def shared_area(a: Sides, b: Sides) -> Array:
    """Areas of the intersections of boxes given by their sides."""
    width = jnp.minimum(a[2], b[2]) - jnp.maximum(a[0], b[0])
    height = jnp.minimum(a[3], b[3]) - jnp.maximum(a[1], b[1])
    return jnp.maximum(width, 0) * jnp.maximum(height, 0)


def _areas(boxes: Array, form: str) -> Array:
    """Return areas of boxes (…, 4); 0 where one side is negative."""
    a, b, c, d = columns(boxes)
    width, height = (c - a, d - b) if form == "corner" else (c, d)
    return jnp.where((width < 0) | (height < 0), 0, width * height)


@lowers("_contrib_box_iou")
def _box_iou(p: ops.BoxIoUParams, lhs: Array, rhs: Array) -> Array:
    a, b = wide(lhs).reshape(-1, 1, 4), wide(rhs).reshape(1, -1, 4)
    shared = shared_area(sides(a, p.format), sides(b, p.format))
    union = _areas(a, p.format) + _areas(b, p.format) - shared
    iou = jnp.where(shared > 0, shared / jnp.where(shared > 0, union, 1), 0)
    return iou.astype(lhs.dtype).reshape(*lhs.shape[:-1], *rhs.shape[:-1])


# -- box_nms ---------------------------------------------------------------------------------------------------------


def _converted(boxes: Array, source: str, target: str) -> Array:
    """Return boxes (n, 4) in another format."""
    if source == target:
        return boxes
    left, top, right, bottom = sides(boxes, source)
    if target == "corner":
        return jnp.stack([left, top, right, bottom], -1)
    return jnp.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], -1)


def _surviving_rows(p: ops.BoxNMSParams, data: Array) -> Array:
    """Return the numbers of the rows of data (n, k) that stay, best first, then -1: (n,)."""
    n, data = data.shape[0], wide(data)
    scores = data[:, p.score_index]
    valid = scores > np.float32(p.valid_thresh)
    if p.id_index >= 0:  # -1, the default background_id, marks rows of padding: no class may have that number
        valid &= data[:, p.id_index] != p.background_id
    order = descending(scores, valid, p.topk if p.topk > 0 else None)
    ranked = data[order]
    boxes = ranked[:, p.coord_start : p.coord_start + 4]
    areas, edges = _areas(boxes, p.in_format), sides(boxes, p.in_format)

    def rivals(i: Array) -> Array:
        shared = shared_area([edge[i] for edge in edges], edges)
        too_close = shared / (areas[i] + areas - shared) > np.float32(p.overlap_thresh)
        if p.force_suppress or p.id_index < 0:
            return too_close
        classes = cast(ranked[:, p.id_index], np.int32)  # the whole part decides, as in MXNet
        return too_close & (classes == classes[i])

    places = in_front(survivors(valid[order], rivals))
    rows = jnp.where(places >= 0, order[places], -1)
    return jnp.pad(rows, (0, n - rows.shape[0]), constant_values=-1)


@lowers("_contrib_box_nms")
@at_once
def _box_nms(p: ops.BoxNMSParams, data: Array) -> tuple[Array, Array]:
    if p.topk == 0:
        return data, lax.broadcasted_iota(np.int32, (*data.shape[:-1], 1), data.ndim - 2)
    record = over_batches(lambda one: _surviving_rows(p, lax.stop_gradient(one)), 2)(data)[..., None]
    rows = _rows(data, record, -1)
    if p.in_format != p.out_format:
        end = p.coord_start + 4
        boxes = _converted(wide(rows[..., p.coord_start : end]), p.in_format, p.out_format)
        boxes = jnp.where(record >= 0, boxes, -1).astype(data.dtype)
        rows = jnp.concatenate([rows[..., : p.coord_start], boxes, rows[..., end:]], -1)
    return rows, record


def _rows(data: Array, record: Array, fill: float) -> Array:
    """Return the rows of data (…, n, k) that a record (…, n, 1) names; `fill` where it names none."""
    taken = jnp.take_along_axis(data, jnp.maximum(record, 0), -2, mode="promise_in_bounds")
    return jnp.where(record >= 0, taken, np.asarray(fill, data.dtype))


@lowers("_backward_contrib_box_nms_take")
def _take_rows(p: Any, data: Array, record: Array) -> Array:
    return _rows(data, record, 0)


@lowers("_backward_contrib_box_nms")
def _put_rows(p: Any, ograd: Array, record: Array) -> Array:
    *_, n, k = ograd.shape

    def put(rows: Array, places: Array) -> Array:
        return jnp.zeros_like(rows).at[jnp.where(places < 0, n, places)].set(rows, mode="drop")

    return jax.vmap(put)(ograd.reshape(-1, n, k), record.reshape(-1, n)).reshape(ograd.shape)


# -- bipartite_matching ----------------------------------------------------------------------------------------------


def _matching(p: ops.BipartiteMatchingParams, scores: Array) -> tuple[Array, Array]:
    """Return each row's column and each column's row, in the scores' dtype."""
    sign = -1 if p.is_ascend else 1
    better = wide(scores) * sign
    of_row, of_column = greedy_pairs(better, np.float32(p.threshold) * sign)
    if p.topk > 0:
        # The limit counts pairs in the order in which they are made one at a time, and stops one too late.
        columns = scores.shape[1]
        value = jnp.take_along_axis(better, jnp.maximum(of_row, 0)[:, None], 1)[:, 0]
        order = descending(value, of_row >= 0)
        rank = jnp.zeros_like(order).at[order].set(lax.iota(np.int32, order.shape[0]))
        of_row = jnp.where(rank <= p.topk, of_row, -1)
        of_column = jnp.where((of_row[of_column] == lax.iota(np.int32, columns)) & (of_column >= 0), of_column, -1)
    return of_row.astype(scores.dtype), of_column.astype(scores.dtype)


@lowers("_contrib_bipartite_matching")
@at_once
def _bipartite_matching(p: ops.BipartiteMatchingParams, data: Array) -> tuple[Array, Array]:
    return over_batches(lambda one: _matching(p, one), 2)(data)


# -- box_encode, box_decode ------------------------------------------------------------------------------------------


def centres(boxes: Array, form: str = "corner") -> tuple[Array, Array]:
    """Centres (…, 2) and sizes (…, 2) of boxes (…, 4)."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return ((low + high) / 2, high - low) if form == "corner" else (low, high)


def offsets(boxes: Array, anchors: Array) -> Array:
    """Boxes (…, 4) relative to anchors (…, 4), both corners: centres in anchors' sizes, logarithms of sizes."""
    centre, size = centres(boxes)
    anchor, unit = centres(anchors)
    return jnp.concatenate([(centre - anchor) / unit, jnp.log(size / unit)], -1)


@lowers("_contrib_box_encode")
def _box_encode(
    p: Any, samples: Array, matches: Array, anchors: Array, refs: Array, means: Array, stds: Array
) -> tuple[Array, Array]:
    matched = jnp.take_along_axis(refs, matches.astype(np.int32)[..., None], 1, mode="clip")
    targets = (offsets(wide(matched), wide(anchors)) - wide(means)) / wide(stds)
    mask = jnp.broadcast_to(samples[..., None] > 0.5, targets.shape)
    return jnp.where(mask, targets, 0).astype(samples.dtype), mask.astype(samples.dtype)


@lowers("_contrib_box_decode")
def _box_decode(p: ops.BoxDecodeParams, data: Array, anchors: Array) -> Array:
    anchor, unit = centres(wide(anchors), p.format)
    scaled = wide(data) * np.asarray([p.std0, p.std1, p.std2, p.std3], unit.dtype)
    centre = scaled[..., :2] * unit + anchor
    logarithm = jnp.minimum(scaled[..., 2:], p.clip) if p.clip > 0 else scaled[..., 2:]
    half = jnp.exp(logarithm) * unit / 2
    return jnp.concatenate([centre - half, centre + half], -1).astype(data.dtype)
