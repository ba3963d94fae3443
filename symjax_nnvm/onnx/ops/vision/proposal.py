"""The ONNX form of region proposals."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.vision import suppression as s
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.vision import proposal as ops


def _anchors(p: ops.ProposalParams, h: int, w: int) -> np.ndarray:
    """Return (h, w, k, 4): the anchors of every place."""
    x, y = (np.arange(size, dtype=np.float32) * p.feature_stride for size in (w, h))
    shift = np.stack(np.broadcast_arrays(x[None], y[:, None]), -1)
    return np.tile(shift, 2)[:, :, None] + ops.base_anchors(p)


def _predicted(g: Builder, p: ops.ProposalParams, anchors: np.ndarray, deltas: Tensor) -> Tensor:
    """Return boxes (…, 4) in pixels. A box of corners a and b is b - a + 1 wide: both are pixels of it."""
    dtype = deltas.dtype
    if p.iou_loss:
        return g.op("Add", deltas, g.constant(anchors, dtype))
    size = anchors[..., 2:] - anchors[..., :2] + 1
    place, logarithm = (g.op("Slice", deltas, [i], [i + 2], [-1]) for i in (0, 2))
    middle = g.constant(anchors[..., :2] + 0.5 * (size - 1), dtype)
    unit = g.constant(size, dtype)
    centre = g.op("Add", g.op("Mul", place, unit), middle)
    reach = s.half(g, g.op("Sub", g.op("Mul", g.op("Exp", logarithm), unit), 1.0))
    return g.concat([g.op("Sub", centre, reach), g.op("Add", centre, reach)], -1)


def _info(g: Builder, im_info: Tensor, i: int, axes: int) -> Tensor:
    """Return a number of each image (b, 1, …), with so many axes after the batch."""
    return g.op("Unsqueeze", g.op("Gather", im_info, g.constant(i, "int64"), axis=1), list(range(1, axes + 1)))


def _candidates(
    g: Builder, p: ops.ProposalParams, cls_prob: Tensor, deltas: Tensor, im_info: Tensor, sizes: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Return boxes (b, h·w·k, 4) inside the image, and scores (b, h·w·k)."""
    (h, w), k = sizes, len(p.scales) * len(p.ratios)
    scores = g.transpose(g.op("Slice", cls_prob, [k], [2 * k], [1]), (0, 2, 3, 1))
    moves = g.transpose(g.reshape(deltas, -1, k, 4, h, w), (0, 3, 4, 1, 2))
    boxes = _predicted(g, p, _anchors(p, h, w), moves)
    ends = g.op("Gather", im_info, np.array([1, 0, 1, 0]), axis=1)
    last = g.op("Unsqueeze", g.op("Sub", ends, 1.0), [1, 2, 3])
    boxes = g.op("Max", g.op("Min", boxes, last), 0.0)

    real = [g.op("Floor", g.op("Div", _info(g, im_info, i, 3), float(p.feature_stride))) for i in (0, 1)]
    rows = g.constant(np.arange(h).reshape(1, h, 1, 1), im_info.dtype)
    columns = g.constant(np.arange(w).reshape(1, 1, w, 1), im_info.dtype)
    is_real = g.op("And", g.op("Less", rows, real[0]), g.op("Less", columns, real[1]))
    least = g.op("Mul", _info(g, im_info, 2, 3), float(p.rpn_min_size))
    left, top, right, bottom = s.sides(g, boxes)
    lengths = [g.op("Add", g.op("Sub", b, a), 1.0) for a, b in ((left, right), (top, bottom))]
    is_small = g.op("Or", *(g.op("Less", length, least) for length in lengths))
    margin = g.op("Mul", g.op("Unsqueeze", least, [-1]), g.constant([-0.5, -0.5, 0.5, 0.5], boxes.dtype))
    boxes = g.op("Where", g.op("Unsqueeze", is_small, [-1]), g.op("Add", boxes, margin), boxes)
    bad = g.op("Or", is_small, g.op("Not", is_real))
    scores = g.op("Where", bad, g.constant(-1, scores.dtype), scores)
    return g.reshape(boxes, 0, h * w * k, 4), g.reshape(scores, 0, h * w * k)


@onnx_form("_contrib_Proposal", "_contrib_MultiProposal")
def _proposal(g: Builder, p: ops.ProposalParams, *inputs: Tensor) -> list[Tensor]:
    dtype = inputs[0].dtype
    height, width = g.static(inputs[0], [2, 3])[2:]
    cls_prob, deltas, im_info = (g.cast(x, "float32") if x.dtype == "float16" else x for x in inputs)
    boxes, scores = _candidates(g, p, cls_prob, deltas, im_info, (height, width))
    total = height * width * len(p.scales) * len(p.ratios)
    count, post = min(p.rpn_pre_nms_top_n, total) if p.rpn_pre_nms_top_n > 0 else total, p.rpn_post_nms_top_n
    everything = g.op("Equal", scores, scores)
    order = s.descending(g, scores, everything, count)
    boxes, scores = s.rows_at(g, boxes, order), g.op("GatherElements", scores, order, axis=1)
    edges = s.sides(g, boxes)

    def longer(b: Builder, sides: s.Sides) -> s.Sides:
        """Return the sides of boxes with 1 added to the right and lower ones, whose pixels belong to the box."""
        return [*sides[:2], *(b.op("Add", side, 1.0) for side in sides[2:])]

    edges = longer(g, edges)
    areas = s.area(g, edges)

    def rivals(b: Builder, number: Tensor) -> Tensor:
        shared = s.shared_area(b, [s.picked(b, edge, number) for edge in edges], edges)
        union = b.op("Sub", b.op("Add", areas, s.picked(b, areas, number)), shared)
        return b.op("Greater", b.op("Div", shared, union), float(np.float32(p.threshold)))

    stays = s.survivors(g, g.op("GatherElements", everything, order, axis=1), count, rivals)
    survivor_count = g.op("Min", g.op("ReduceSum", g.cast(stays, "int64"), [1], keepdims=1), post)
    rank = g.op("Mod", g.constant(np.arange(post)[None]), survivor_count)
    chosen = g.op("GatherElements", s.in_front(g, stays, count), rank, axis=1)
    return _rows(g, s.rows_at(g, boxes, chosen), g.op("GatherElements", scores, chosen, axis=1), dtype)


def _rows(g: Builder, boxes: Tensor, scores: Tensor, dtype: str) -> list[Tensor]:
    """Return rows (b·post, 5) of the image's number and a box, and the scores (b·post, 1)."""
    ones = g.op("Expand", g.constant(1, scores.dtype), g.op("Shape", scores))
    numbers = g.op("Sub", g.op("CumSum", ones, g.constant(0, "int64")), 1.0)
    rois = g.concat([g.op("Unsqueeze", numbers, [-1]), boxes], -1)
    return [g.cast(g.reshape(rois, -1, 5), dtype), g.cast(g.reshape(scores, -1, 1), dtype)]
