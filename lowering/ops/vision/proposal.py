"""JAX rules of region proposals."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.vision.bounding_box import at_once, columns, descending, in_front, survivors
from lowering.ops.wide import wide
from symjax_nnvm.ops.vision import proposal as ops


def _anchors(p: ops.ProposalParams, h: int, w: int, dtype: np.dtype) -> Array:
    """Return (h, w, k, 4): the anchors of every place."""
    x, y = (jnp.arange(size, dtype=dtype) * p.feature_stride for size in (w, h))
    shift = jnp.stack(jnp.broadcast_arrays(x[None], y[:, None]), -1)
    return jnp.tile(shift, 2)[:, :, None] + ops.base_anchors(p).astype(dtype)


def _predicted(p: ops.ProposalParams, anchors: Array, deltas: Array) -> Array:
    """Return boxes (…, 4) in pixels. A box of corners a and b is b - a + 1 wide: both are pixels of it."""
    if p.iou_loss:
        return anchors + deltas
    size = anchors[..., 2:] - anchors[..., :2] + 1
    centre = deltas[..., :2] * size + anchors[..., :2] + 0.5 * (size - 1)
    half = 0.5 * (jnp.exp(deltas[..., 2:]) * size - 1)
    return jnp.concatenate([centre - half, centre + half], -1)


def _candidates(p: ops.ProposalParams, cls_prob: Array, deltas: Array, im_info: Array) -> tuple[Array, Array]:
    """Return boxes (h·w·k, 4) inside the image, and scores (h·w·k,), of cls_prob (2k, h, w), deltas (4k, h, w)."""
    channels, h, w = cls_prob.shape
    k = channels // 2
    scores = jnp.moveaxis(cls_prob[k:], 0, -1)
    moves = jnp.moveaxis(deltas.reshape(k, 4, h, w), (0, 1), (2, 3))
    boxes = _predicted(p, _anchors(p, h, w, cls_prob.dtype), moves)
    boxes = jnp.clip(boxes, 0, jnp.tile(im_info[1::-1], 2) - 1)

    real_h, real_w = (jnp.floor(im_info[i] / p.feature_stride) for i in (0, 1))
    is_real = (lax.iota(np.int32, h)[:, None] < real_h) & (lax.iota(np.int32, w) < real_w)
    least = p.rpn_min_size * im_info[2]
    is_small = jnp.any(boxes[..., 2:] - boxes[..., :2] + 1 < least, -1)
    grown = boxes + jnp.stack([-least, -least, least, least]) / 2
    boxes = jnp.where(is_small[..., None], grown, boxes)
    scores = jnp.where(is_small | ~is_real[..., None], -1, scores)
    return boxes.reshape(-1, 4), scores.reshape(-1)


def _image_proposals(p: ops.ProposalParams, cls_prob: Array, deltas: Array, im_info: Array) -> tuple[Array, Array]:
    """Return the proposals (post, 4) of one image and their scores (post, 1)."""
    boxes, scores = _candidates(p, cls_prob, deltas, im_info)
    everything = jnp.ones(scores.shape, bool)
    order = descending(scores, everything, p.rpn_pre_nms_top_n if p.rpn_pre_nms_top_n > 0 else None)
    boxes, scores = boxes[order], scores[order]
    left, top, right, bottom = columns(boxes)
    areas = (right - left + 1) * (bottom - top + 1)

    def rivals(i: Array) -> Array:
        width = jnp.minimum(right, right[i]) - jnp.maximum(left, left[i]) + 1
        height = jnp.minimum(bottom, bottom[i]) - jnp.maximum(top, top[i]) + 1
        shared = jnp.maximum(width, 0) * jnp.maximum(height, 0)
        return shared / (areas + areas[i] - shared) > np.float32(p.threshold)

    post = p.rpn_post_nms_top_n
    stays = survivors(everything[: order.shape[0]], rivals, limit=post)
    rank = lax.iota(np.int32, post) % jnp.sum(stays, dtype=np.int32)
    chosen = in_front(stays)[rank]
    return boxes[chosen], scores[chosen, None]


@lowers("_contrib_Proposal", "_contrib_MultiProposal")
@at_once
def _proposal(p: ops.ProposalParams, cls_prob: Array, bbox_pred: Array, im_info: Array) -> tuple[Array, Array]:
    images = wide(cls_prob), wide(bbox_pred), wide(im_info)
    boxes, scores = jax.vmap(lambda *image: _image_proposals(p, *image))(*images)
    b, post, _ = boxes.shape
    number = jnp.broadcast_to(jnp.arange(b, dtype=boxes.dtype)[:, None, None], (b, post, 1))
    rois = jnp.concatenate([number, boxes], -1).reshape(-1, 5)
    return rois.astype(cls_prob.dtype), scores.reshape(-1, 1).astype(cls_prob.dtype)
