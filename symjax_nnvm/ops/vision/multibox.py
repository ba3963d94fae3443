"""The operators of the single-shot detector (SSD, Liu et al., 2016): anchors, training targets, detections."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.entry_gradients import STOPPED, no_gradient
from symjax_nnvm.ir.rules.named_dims import read_dims, shapes_of
from symjax_nnvm.ops.vision.bounding_box import pair_flops, suppression_flops

Floats = tuple[float, ...]


def _numbers(name: str, values: Floats, count: int) -> str | None:
    return None if len(values) == count else f"Parameter {name}={values}: expected {count} numbers"


# -- MultiBoxPrior ---------------------------------------------------------------------------------------------------


class MultiBoxPriorParams(Params):
    sizes: Floats = param((1.0,), doc="heights of anchors, relative to the image")
    ratios: Floats = param((1.0,), gt=0, doc="aspect ratios; all but the first apply to the first size only")
    clip: bool = param(False, doc="clip anchors at the image's border")
    steps: Floats = param((-1.0, -1.0), doc="distance of centres in y and x; 0 or less: they fill the image")
    offsets: Floats = param((0.5, 0.5), ge=0, le=1, doc="the first centre in y and x, in steps")

    def check(self) -> str | None:
        for name in ("sizes", "ratios"):
            if not getattr(self, name):
                return f"Parameter {name}=(): expected at least one number"
        if problem := _numbers("steps", self.steps, 2) or _numbers("offsets", self.offsets, 2):
            return problem
        if self.steps[0] * self.steps[1] < 0:
            return f"Parameter steps={self.steps}: Must specify both step_y and step_x, or neither"
        return None


def prior_boxes(p: MultiBoxPriorParams, h: int, w: int, xp: Any = np) -> Any:
    """(h·w·k, 4): corners of the k anchors of every place of a map of h × w, in float32 as MXNet computes them.

    xp: what has the functions of NumPy that place the anchors: each number is one sum or difference."""
    f = np.float32
    step_y, step_x = (f(1 / h), f(1 / w)) if min(p.steps) <= 0 else map(f, p.steps)
    centre_y = (np.arange(h, dtype=f) + f(p.offsets[0])) * step_y
    centre_x = (np.arange(w, dtype=f) + f(p.offsets[1])) * step_x
    sizes = np.asarray([*p.sizes, *[p.sizes[0]] * (len(p.ratios) - 1)], f)
    ratios = np.sqrt(np.asarray([*[p.ratios[0]] * len(p.sizes), *p.ratios[1:]], f))
    half_w = sizes * f(h) / f(w) * ratios / 2  # a square of the image is not a square of the unit square
    half_h = sizes / ratios / 2
    y, x, half_w, half_h = map(xp.asarray, (centre_y, centre_x, half_w, half_h))
    y, x = y[:, None, None], x[:, None]
    sides = xp.broadcast_arrays(x - half_w, y - half_h, x + half_w, y + half_h)
    boxes = xp.stack(sides, -1).reshape(-1, 4)
    return xp.clip(boxes, 0, 1) if p.clip else boxes


def _prior_shapes(p: MultiBoxPriorParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w, …) → (1, h·w·k, 4) with k = sizes + ratios - 1."""
    data = ins[0]
    if data is None:
        return ins, [(1, None, 4)]
    if len(data) < 4:
        problem = "Input data should be 4D: batch-channel-y-x"
        raise InferenceError(problem, input="data", expected="at least 4 axes", got=len(data))
    h, w = data[2:4]
    places = None if h is None or w is None else h * w * (len(p.sizes) + len(p.ratios) - 1)
    return ins, [(1, places, 4)]


register_op(
    "_contrib_MultiBoxPrior",
    aliases=("_npx_multibox_prior",),
    params=MultiBoxPriorParams,
    inputs=("data",),
    infer_shape=_prior_shapes,
    infer_type=float_type,
    gradient=no_gradient,
    FIgnoreInputs=lambda attrs: (0,),
    not_derivative=STOPPED,
    flops="a few operations for each box, beside a network's",
    doc="Anchors (left, top, right, bottom, relative to the image) at every place of a feature map: one for each size "
    "with the first ratio, then one for each further ratio with the first size. Only the shape of data counts.",
)

# -- MultiBoxTarget --------------------------------------------------------------------------------------------------


class MultiBoxTargetParams(Params):
    overlap_threshold: float = param(
        0.5, doc="an anchor that overlaps an object by more is positive; 0 or less: only each object's best anchor is"
    )
    ignore_label: float = param(-1.0, doc="class target of anchors that do not count")
    negative_mining_ratio: float = param(
        -1.0, doc="negative anchors for each positive one, the hardest; 0 or less: all that are not positive"
    )
    negative_mining_thresh: float = param(0.5, doc="mined anchors overlap every object by less")
    minimum_negative_samples: int = param(0, doc="accepted and without effect, as on MXNet's CPU")
    variances: Floats = param((0.1, 0.1, 0.2, 0.2), doc="divisors of the targets: centre x and y, width, height")

    def check(self) -> str | None:
        if self.negative_mining_ratio > 0 and self.negative_mining_thresh <= 0:
            return f"Parameter negative_mining_thresh={self.negative_mining_thresh}: expected a number > 0 for mining"
        return _numbers("variances", self.variances, 4)


def _target_shapes(p: MultiBoxTargetParams, ins: Shapes, outs: Shapes):
    """anchor (1, a, 4), label (b, g, 5 or more), cls_pred (b, c, a) → loc_target and loc_mask (b, 4a), cls_target
    (b, a)."""
    inputs, outputs = ["1 a 4", "b g k", "b c a"], ["b sides", "b sides", "b a"]
    dims = read_dims(inputs + outputs, [*ins, *outs])
    _count_sides(dims)
    width = dims.get("k")
    if width is not None and width < 5:
        problem = "Label width should be greater than or equal to 5"
        raise InferenceError(problem, input="label", expected="class, left, top, right, bottom", got=width)
    return shapes_of(inputs, dims), shapes_of(outputs, dims)


def _count_sides(dims: dict[str, int | None]) -> None:
    """Four sides for each anchor, and an anchor for each four sides."""
    a, sides = dims.get("a"), dims.get("sides")
    if a is not None:
        dims["sides"] = 4 * a
    elif sides is not None and sides % 4 == 0:
        dims["a"] = sides // 4


register_op(
    "_contrib_MultiBoxTarget",
    aliases=("_npx_multibox_target",),
    params=MultiBoxTargetParams,
    inputs=("anchor", "label", "cls_pred"),
    outputs=("loc_target", "loc_mask", "cls_target"),
    infer_shape=_target_shapes,
    infer_type=float_type,
    gradient=no_gradient,
    not_derivative=STOPPED,
    flops=pair_flops,
    doc="What SSD should predict for every anchor. Rows of label are class, left, top, right, bottom; the first row of "
    "class -1 ends an image's. Objects and anchors are paired greedily by overlap; further anchors take the object "
    "they overlap most. cls_target is the object's class + 1, 0 for background, or ignore_label; an image without "
    "objects is ignored altogether. Mining ranks by the background's softmax probability in cls_pred, the least first; "
    "where fewer anchors qualify than the ratio asks for all of them are taken, while MXNet stops with an error.",
)

# -- MultiBoxDetection -----------------------------------------------------------------------------------------------


class MultiBoxDetectionParams(Params):
    clip: bool = param(True, doc="clip boxes at the image's border")
    threshold: float = param(0.00999999978, doc="the least probability of a detection")
    background_id: int = param(0, doc="accepted and without effect, as on MXNet's CPU: class 0 is the background")
    nms_threshold: float = param(
        0.5,
        doc="a box that overlaps a better one this much (intersection over union) is removed; outside (0, 1] "
        "none is removed, and nothing is sorted",
    )
    force_suppress: bool = param(False, doc="a box may also be removed for one of another class")
    variances: Floats = param((0.1, 0.1, 0.2, 0.2), doc="factors of the predictions: centre x and y, width, height")
    nms_topk: int = param(-1, doc="how many boxes, the best ones, take part; 0 or less: all")

    def check(self) -> str | None:
        return _numbers("variances", self.variances, 4)


def _detection_shapes(p: MultiBoxDetectionParams, ins: Shapes, outs: Shapes):
    """cls_prob (b, c, a), loc_pred (b, 4a), anchor (1, a, 4) → (b, a, 6)."""
    inputs, outputs = ["b c a", "b sides", "1 a 4"], ["b a 6"]
    dims = read_dims(inputs + outputs, [*ins, *outs])
    _count_sides(dims)
    return shapes_of(inputs, dims), shapes_of(outputs, dims)


register_op(
    "_contrib_MultiBoxDetection",
    aliases=("_npx_multibox_detection",),
    params=MultiBoxDetectionParams,
    inputs=("cls_prob", "loc_pred", "anchor"),
    infer_shape=_detection_shapes,
    infer_type=float_type,
    gradient=no_gradient,
    not_derivative=STOPPED,
    flops=suppression_flops,
    doc="SSD's detections: rows of class (without background), probability, left, top, right, bottom, by descending "
    "probability. A row that was suppressed, or holds no detection, has class -1.",
)
