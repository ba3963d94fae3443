"""JAX rules of the single-shot detector's operators."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import Numbers, lowers
from lowering.ops.vision.bounding_box import (
    Sides,
    at_once,
    centres,
    columns,
    descending,
    greedy_pairs,
    in_front,
    offsets,
    shared_area,
    sides,
    survivors,
)
from lowering.ops.wide import wide
from symjax_nnvm.ops.vision import multibox as ops


@lowers("_contrib_MultiBoxPrior", numbers=Numbers("The boxes are made with the program", axes=(2, 3)))
def _multi_box_prior(p: ops.MultiBoxPriorParams, data: Array) -> Array:
    height, width = data.shape[2:4]
    return ops.prior_boxes(p, height, width, jnp).astype(data.dtype)[None]


def _overlap(a: Sides, b: Sides) -> Array:
    """Return intersection over union of boxes given by their sides; 0 where the union is empty."""
    shared = shared_area(a, b)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return jnp.where(union == 0, 0, shared / jnp.where(union == 0, 1, union))


# -- MultiBoxTarget --------------------------------------------------------------------------------------------------

_LEAST_OVERLAP = np.float32(1e-6)
"""An object's best anchor must overlap it by more to be its anchor."""


def _hardest(p: ops.MultiBoxTargetParams, cls_pred: Array, is_positive: Array, overlap: Array) -> Array:
    """Return the anchors mined as negative: those that look least like background."""
    candidates = ~is_positive & (overlap < np.float32(p.negative_mining_thresh))
    count = jnp.sum(is_positive, dtype=np.int32)
    negatives = (count * np.float32(p.negative_mining_ratio)).astype(np.int32)
    negatives = jnp.minimum(negatives, is_positive.shape[0] - count)
    order = descending(-jax.nn.softmax(cls_pred, 0)[0], candidates)
    is_chosen = jnp.zeros_like(candidates).at[order].set(lax.iota(np.int32, order.shape[0]) < negatives)
    return is_chosen & candidates


def _image_targets(
    p: ops.MultiBoxTargetParams, anchors: Array, label: Array, cls_pred: Array
) -> tuple[Array, Array, Array]:
    """Return for one image: anchors (a, 4), label (g, 5), cls_pred (c, a) → targets (a, 4), mask (a, 4), classes
    (a,)."""
    is_object = jnp.cumsum(label[:, 0] == -1) == 0
    overlaps = jnp.where(is_object, _overlap(sides(anchors[:, None]), sides(label[:, 1:5])), -1)
    paired, _ = greedy_pairs(overlaps, _LEAST_OVERLAP)
    nearest, overlap = jnp.argmax(overlaps, 1).astype(np.int32), jnp.max(overlaps, 1)
    is_positive = paired >= 0
    if p.overlap_threshold > 0:
        is_positive |= overlap > np.float32(p.overlap_threshold)
    is_negative = ~is_positive
    if p.negative_mining_ratio > 0:
        is_negative = _hardest(p, cls_pred, is_positive, overlap)

    matched = label[jnp.where(paired >= 0, paired, nearest)]
    classes = jnp.where(is_positive, matched[:, 0] + 1, jnp.where(is_negative, 0, p.ignore_label))
    classes = jnp.where(is_object[0], classes, p.ignore_label)

    targets = offsets(matched[:, 1:5], anchors) / np.asarray(p.variances, anchors.dtype)
    mask = jnp.broadcast_to(is_positive[:, None], targets.shape)
    return jnp.where(mask, targets, 0), mask, classes


@lowers("_contrib_MultiBoxTarget")
@at_once
def _multi_box_target(
    p: ops.MultiBoxTargetParams, anchor: Array, label: Array, cls_pred: Array
) -> tuple[Array, Array, Array]:
    anchors = wide(anchor[0])
    results = jax.vmap(lambda *image: _image_targets(p, anchors, *image))(wide(label), wide(cls_pred))
    targets, mask, classes = (result.astype(anchor.dtype) for result in results)
    return targets.reshape(label.shape[0], -1), mask.reshape(label.shape[0], -1), classes


# -- MultiBoxDetection -----------------------------------------------------------------------------------------------


def _decoded(p: ops.MultiBoxDetectionParams, loc_pred: Array, anchors: Array) -> Array:
    """Return predicted boxes (a, 4) as corners."""
    anchor, unit = centres(anchors)
    moved = loc_pred.reshape(-1, 4) * np.asarray(p.variances, loc_pred.dtype)
    centre, half = moved[:, :2] * unit + anchor, jnp.exp(moved[:, 2:]) * unit / 2
    boxes = jnp.concatenate([centre - half, centre + half], -1)
    return jnp.clip(boxes, 0, 1) if p.clip else boxes


def _image_detections(p: ops.MultiBoxDetectionParams, cls_prob: Array, loc_pred: Array, anchors: Array) -> Array:
    """Return for one image: cls_prob (c, a), loc_pred (4a,), anchors (a, 4) → (a, 6)."""
    n = anchors.shape[0]
    objects = cls_prob[1:]
    if objects.shape[0] == 0:
        return jnp.full((n, 6), -1, cls_prob.dtype)
    score = jnp.max(objects, 0)
    is_found = (score > -1) & (score >= np.float32(p.threshold))
    parts = [jnp.argmax(objects, 0).astype(score.dtype)[:, None], score[:, None], _decoded(p, loc_pred, anchors)]
    rows = jnp.concatenate(parts, 1)
    place = in_front(is_found)
    unsorted = jnp.where(place[:, None] >= 0, rows[place], -1)
    if not 0 < p.nms_threshold <= 1:
        return unsorted

    # MXNet sorts as many rows as take part; what follows keeps the order of anchors.
    k = min(p.nms_topk, n) if p.nms_topk > 0 else n
    order = descending(score, is_found, k)
    ranked = rows[order]
    classes, _, *edges = columns(ranked)

    def rivals(i: Array) -> Array:
        too_close = _overlap([edge[i] for edge in edges], edges) >= np.float32(p.nms_threshold)
        return too_close if p.force_suppress else too_close & (classes == classes[i])

    stays = survivors(is_found[order], rivals)
    ranked = ranked.at[:, 0].set(jnp.where(stays, ranked[:, 0], -1))
    ranked = jnp.where(is_found[order][:, None], ranked, -1)
    return jnp.concatenate([ranked, unsorted[k:].at[:, 0].set(-1)], 0)


@lowers("_contrib_MultiBoxDetection")
@at_once
def _multi_box_detection(p: ops.MultiBoxDetectionParams, cls_prob: Array, loc_pred: Array, anchor: Array) -> Array:
    anchors = wide(anchor[0])
    detections = jax.vmap(lambda prob, loc: _image_detections(p, prob, loc, anchors))(wide(cls_prob), wide(loc_pred))
    return detections.astype(cls_prob.dtype)
