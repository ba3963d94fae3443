"""ONNX forms of the single-shot detector's operators."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.ops.vision import suppression as s
from symjax_nnvm.onnx.ops.vision.bounding_box import centres
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.vision import multibox as ops

refuses(
    "_contrib_MultiBoxTarget",
    reason="it makes the targets of a loss, which only training needs",
    fix="symjax_nnvm.inference_symbol(net) leaves it out, with the losses.",
)


@onnx_form("_contrib_MultiBoxPrior")
def _multi_box_prior(g: Builder, p: ops.MultiBoxPriorParams, data: Tensor) -> Tensor:
    height, width = g.static(data, [2, 3])[2:4]
    return g.constant(ops.prior_boxes(p, height, width)[None], data.dtype)


def _decoded(g: Builder, p: ops.MultiBoxDetectionParams, loc_pred: Tensor, anchors: Tensor, count: int) -> Tensor:
    """Return predicted boxes (b, a, 4) as corners."""
    anchor, unit = centres(g, anchors)
    moved = g.op("Mul", g.reshape(loc_pred, -1, count, 4), g.constant(p.variances, loc_pred.dtype))
    place, logarithm = (g.op("Slice", moved, [i], [i + 2], [-1]) for i in (0, 2))
    centre = g.op("Add", g.op("Mul", place, unit), anchor)
    reach = s.half(g, g.op("Mul", g.op("Exp", logarithm), unit))
    boxes = g.concat([g.op("Sub", centre, reach), g.op("Add", centre, reach)], -1)
    return g.op("Clip", boxes, 0.0, 1.0) if p.clip else boxes


@onnx_form("_contrib_MultiBoxDetection")
def _multi_box_detection(
    g: Builder, p: ops.MultiBoxDetectionParams, cls_prob: Tensor, loc_pred: Tensor, anchor: Tensor
) -> Tensor:
    dtype = cls_prob.dtype
    probabilities, loc_pred, anchor = (
        g.cast(x, "float32") if dtype == "float16" else x for x in (cls_prob, loc_pred, anchor)
    )
    _, classes, count = g.static(cls_prob, [1, 2])
    if classes == 1:
        return g.fill(-1, g.outs[0])
    objects = g.op("Slice", probabilities, [1], [classes], [1])
    score = g.op("ReduceMax", objects, [1], keepdims=0)
    threshold = float(np.float32(p.threshold))
    detected = g.op("And", g.op("Greater", score, -1.0), g.op("GreaterOrEqual", score, threshold))
    kind = g.cast(g.op("ArgMax", objects, axis=1, keepdims=0), score.dtype)
    boxes = _decoded(g, p, loc_pred, anchor, count)
    rows = g.concat([g.op("Unsqueeze", kind, [-1]), g.op("Unsqueeze", score, [-1]), boxes], -1)
    place = s.in_front(g, detected, count)
    none = g.op("Unsqueeze", g.op("Less", place, 0), [-1])
    minus = g.constant(-1, score.dtype)
    unsorted = g.op("Where", none, minus, s.rows_at(g, rows, g.op("Max", place, 0)))
    if not 0 < p.nms_threshold <= 1:
        return g.cast(unsorted, dtype)

    # MXNet sorts as many rows as take part; what follows keeps the order of anchors.
    k = min(p.nms_topk, count) if p.nms_topk > 0 else count
    ranked = _suppressed(g, p, rows, score, detected, k)
    if k < count:
        unranked = g.op("Slice", unsorted, [k], [count], [1])
        ranked = g.concat([ranked, _unclassed(g, unranked)], 1)
    return g.cast(ranked, dtype)


def _unclassed(g: Builder, rows: Tensor) -> Tensor:
    """Return rows of the class -1."""
    return g.op("Where", np.array([True, *[False] * 5]), g.constant(-1, rows.dtype), rows)


def _suppressed(
    g: Builder, p: ops.MultiBoxDetectionParams, rows: Tensor, score: Tensor, detected: Tensor, k: int
) -> Tensor:
    """Return the best k rows, those that a better one is too close to of the class -1, and padding rows of class -1."""
    order = s.descending(g, score, detected, k)
    ranked, exists = s.rows_at(g, rows, order), g.op("GatherElements", detected, order, axis=1)
    kinds, edges = s.column(g, ranked, 0), s.sides(g, ranked, start=2)

    def rivals(b: Builder, number: Tensor) -> Tensor:
        shared = s.overlap(b, [s.picked(b, edge, number) for edge in edges], edges)
        too_close = b.op("GreaterOrEqual", shared, float(np.float32(p.nms_threshold)))
        return (
            too_close if p.force_suppress else b.op("And", too_close, b.op("Equal", kinds, s.picked(b, kinds, number)))
        )

    stays = g.op("Unsqueeze", s.survivors(g, exists, k, rivals), [-1])
    marked = g.op("Where", stays, ranked, _unclassed(g, ranked))
    return g.op("Where", g.op("Unsqueeze", exists, [-1]), marked, g.constant(-1, rows.dtype))
