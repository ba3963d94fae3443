"""ONNX forms of operators on bounding boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.numbers import wide
from symjax_nnvm.onnx.ops.vision import suppression as s
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.vision import bounding_box as ops


def _areas(g: Builder, boxes: s.Sides) -> Tensor:
    """Return areas; 0 where one side is negative."""
    lengths = [g.op("Max", g.op("Sub", boxes[i + 2], boxes[i]), 0.0) for i in (0, 1)]
    return g.op("Mul", *lengths)


@onnx_form("_contrib_box_iou")
def _box_iou(g: Builder, p: ops.BoxIoUParams, lhs: Tensor, rhs: Tensor) -> Tensor:
    def function(a: Tensor, b: Tensor) -> Tensor:
        first = s.sides(g, g.reshape(a, -1, 1, 4), p.format)
        second = s.sides(g, g.reshape(b, 1, -1, 4), p.format)
        shared = s.shared_area(g, first, second)
        union = g.op("Sub", g.op("Add", _areas(g, first), _areas(g, second)), shared)
        some = g.op("Greater", shared, 0.0)
        divided = g.op("Div", shared, g.op("Where", some, union, g.constant(1, union.dtype)))
        return g.op("Where", some, divided, g.constant(0, union.dtype))

    return g.reshape_as(wide(g, function, lhs, rhs), g.outs[0])


# -- box_nms ---------------------------------------------------------------------------------------------------------


@onnx_form("_contrib_box_nms")
def _box_nms(g: Builder, p: ops.BoxNMSParams, data: Tensor) -> Tensor:
    if p.topk == 0:
        return data
    n, k = g.static(data, [-2, -1])[-2:]
    rows = g.cast(g.reshape(data, -1, n, k), "float64" if data.dtype == "float64" else "float32")
    record = _surviving_rows(g, p, rows, n)
    kept_rows = s.rows_at(g, rows, g.op("Max", record, 0))
    if p.in_format != p.out_format:
        kept_rows = _converted(g, p, kept_rows, k)
    exists = g.op("Unsqueeze", g.op("GreaterOrEqual", record, 0), [-1])
    kept_rows = g.op("Where", exists, kept_rows, g.constant(-1, kept_rows.dtype))
    return g.cast(g.reshape_as(kept_rows, g.outs[0]), data.dtype)


def _surviving_rows(g: Builder, p: ops.BoxNMSParams, rows: Tensor, n: int) -> Tensor:
    """Return the numbers of the rows (b, n, k) that stay, best first, then -1: (b, n)."""
    scores = s.column(g, rows, p.score_index)
    valid = g.op("Greater", scores, float(np.float32(p.valid_thresh)))
    classes = s.column(g, rows, p.id_index) if p.id_index >= 0 else None
    if classes is not None:
        valid = g.op("And", valid, g.op("Not", g.op("Equal", classes, float(p.background_id))))
    count = min(p.topk, n) if p.topk > 0 else n
    order = s.descending(g, scores, valid, count)
    ranked = s.rows_at(g, rows, order)
    edges = s.sides(g, ranked, p.in_format, p.coord_start)
    areas = _areas(g, edges)
    kinds = g.cast(s.column(g, ranked, p.id_index), "int32") if classes is not None else None

    def rivals(b: Builder, number: Tensor) -> Tensor:
        shared = s.shared_area(b, [s.picked(b, edge, number) for edge in edges], edges)
        union = b.op("Sub", b.op("Add", s.picked(b, areas, number), areas), shared)
        too_close = b.op("Greater", b.op("Div", shared, union), float(np.float32(p.overlap_thresh)))
        if p.force_suppress or kinds is None:
            return too_close
        return b.op("And", too_close, b.op("Equal", kinds, s.picked(b, kinds, number)))

    stays = s.survivors(g, g.op("GatherElements", valid, order, axis=1), count, rivals)
    places = s.in_front(g, stays, count)
    record = g.op("GatherElements", order, g.op("Max", places, 0), axis=1)
    record = g.op("Where", g.op("GreaterOrEqual", places, 0), record, g.constant(-1, "int64"))
    return record if count == n else g.op("Pad", record, [0, 0, 0, n - count], g.constant(-1, "int64"))


def _converted(g: Builder, p: ops.BoxNMSParams, rows: Tensor, k: int) -> Tensor:
    """Return rows whose boxes are in the other format."""
    left, top, right, bottom = s.sides(g, rows, p.in_format, p.coord_start)
    parts = [left, top, right, bottom]
    if p.out_format == "center":
        centre = [s.half(g, g.op("Add", a, b)) for a, b in ((left, right), (top, bottom))]
        parts = [*centre, g.op("Sub", right, left), g.op("Sub", bottom, top)]
    boxes = [g.op("Unsqueeze", part, [-1]) for part in parts]
    before = [g.slice(rows, 2, 0, p.coord_start)] if p.coord_start else []
    after = [g.slice(rows, 2, p.coord_start + 4, k)] if p.coord_start + 4 < k else []
    return g.concat([*before, *boxes, *after], 2)


refuses(
    "_contrib_bipartite_matching",
    reason="it matches boxes with their targets, which only training needs",
    fix="Cut the network before it, with symjax_nnvm.cut(net, name).",
)

# -- box_encode, box_decode ------------------------------------------------------------------------------------------


def centres(g: Builder, boxes: Tensor, form: str = "corner") -> tuple[Tensor, Tensor]:
    """Centres (…, 2) and sizes (…, 2) of boxes (…, 4)."""
    low, high = (g.op("Slice", boxes, [i], [i + 2], [-1]) for i in (0, 2))
    return (s.half(g, g.op("Add", low, high)), g.op("Sub", high, low)) if form == "corner" else (low, high)


@onnx_form("_contrib_box_encode")
def _box_encode(g: Builder, p: Any, *inputs: Tensor) -> list[Tensor]:
    samples = inputs[0]
    _, matches, anchors, refs, means, stds = (g.cast(x, "float32") if x.dtype == "float16" else x for x in inputs)
    number = g.op("Max", g.op("Min", g.cast(matches, "int64"), g.static(refs, [1])[1] - 1), 0)
    centre, size = centres(g, s.rows_at(g, refs, number))
    anchor, unit = centres(g, anchors)
    moved = [g.op("Div", g.op("Sub", centre, anchor), unit), g.op("Log", g.op("Div", size, unit))]
    targets = g.op("Div", g.op("Sub", g.concat(moved, -1), means), stds)
    mask = g.op("Expand", g.unsqueeze(g.op("Greater", samples, 0.5), samples.ndim), g.op("Shape", targets))
    encoded = g.op("Where", mask, targets, g.constant(0, targets.dtype))
    return [g.cast(encoded, samples.dtype), g.cast(mask, samples.dtype)]


@onnx_form("_contrib_box_decode")
def _box_decode(g: Builder, p: ops.BoxDecodeParams, data: Tensor, anchors: Tensor) -> Tensor:
    def function(x: Tensor, anchors: Tensor) -> Tensor:
        anchor, unit = centres(g, anchors, p.format)
        scaled = g.op("Mul", x, g.constant([p.std0, p.std1, p.std2, p.std3], x.dtype))
        place, logarithm = (g.op("Slice", scaled, [i], [i + 2], [-1]) for i in (0, 2))
        if p.clip > 0:
            logarithm = g.op("Min", logarithm, p.clip)
        centre = g.op("Add", g.op("Mul", place, unit), anchor)
        reach = s.half(g, g.op("Mul", g.op("Exp", logarithm), unit))
        return g.concat([g.op("Sub", centre, reach), g.op("Add", centre, reach)], -1)

    return wide(g, function, data, anchors)
