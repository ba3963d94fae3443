"""Region proposals (Faster R-CNN, Ren et al., 2015): the best boxes that a region proposal network predicts."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import ShapeRule, Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.entry_gradients import STOPPED, no_gradient
from symjax_nnvm.ir.rules.named_dims import read_dims, shapes_of

Floats = tuple[float, ...]


class ProposalParams(Params):
    rpn_pre_nms_top_n: int = param(6000, doc="how many boxes, the best ones, take part; 0 or less: all")
    rpn_post_nms_top_n: int = param(300, ge=1, doc="number of proposals; where fewer boxes are left they are repeated")
    threshold: float = param(0.699999988, doc="a box that overlaps a better one by more (over union) is removed")
    rpn_min_size: int = param(16, doc="least width and height before scaling; smaller boxes come last")
    scales: Floats = param((4.0, 8.0, 16.0, 32.0), doc="anchors' sizes, relative to feature_stride")
    ratios: Floats = param((0.5, 1.0, 2.0), gt=0, doc="anchors' heights over widths")
    feature_stride: int = param(16, ge=1, doc="pixels of the image for each element of the feature map")
    output_score: bool = param(False, doc="show the output `score`")
    iou_loss: bool = param(False, doc="predictions are moves of the corners in pixels, not of centre and size")

    def check(self) -> str | None:
        missing = next((name for name in ("scales", "ratios") if not getattr(self, name)), None)
        return f"Parameter {missing}=(): expected at least one number" if missing else None


def base_anchors(p: ProposalParams) -> np.ndarray:
    """(k, 4): corners, in pixels, of the anchors at the first place of the feature map, all scales of a ratio in turn.

    Float32 and rounded to whole pixels as in MXNet.
    """
    f = np.float32
    ratios = np.repeat(np.asarray(p.ratios, f), len(p.scales))
    scales = np.tile(np.asarray(p.scales, f), len(p.ratios))
    side = f(p.feature_stride)
    centre = f(0.5) * (side - 1)
    half = f(0.5)
    width = np.floor(np.sqrt(np.floor(side * side / ratios)) + half) * scales
    height = np.floor(width / scales * ratios + half) * scales
    right, bottom = half * (width - 1), half * (height - 1)
    return np.stack([centre - right, centre - bottom, centre + right, centre + bottom], 1)


def _shapes(images: int | None) -> ShapeRule:
    """The shape rule of an operator for a number of images (None: any)."""

    def rule(p: ProposalParams, ins: Shapes, outs: Shapes):
        """cls_prob (b, 2k, h, w), bbox_pred (b, 4k, h, w), im_info (b, 3) → output (b·post, 5), score (b·post, 1)."""
        inputs, outputs = ["b scores h w", "b sides h w", "b 3"], ["rois 5", "rois 1"]
        k = len(p.scales) * len(p.ratios)
        dims = read_dims(inputs + outputs, [*ins, *outs])
        if dims.get("scores") not in (None, 2 * k):
            problem = f"{len(p.ratios)} ratios and {len(p.scales)} scales make {k} anchors with 2 scores each"
            raise InferenceError(problem, input="cls_prob", expected=f"{2 * k} channels", got=dims["scores"])
        if images is not None and dims.get("b") not in (None, images):
            problem = "Proposal works on one image"
            fix = "MultiProposal works on several."
            raise InferenceError(problem, input="cls_prob", expected="a batch of 1", got=dims["b"], fix=fix)
        rois, post = dims.get("rois"), p.rpn_post_nms_top_n
        b = known(images, dims.get("b"), rois // post if rois is not None and rois % post == 0 else None)
        dims |= {"b": b, "scores": 2 * k, "sides": 4 * k, "rois": None if b is None else b * post}
        return shapes_of(inputs, dims), shapes_of(outputs, dims)

    return rule


def _proposal_flops(p: ProposalParams, ins: Sizes, outs: Sizes) -> Flops:
    images, double, h, w = ins[0]
    boxes = double // 2 * h * w
    taken = min(p.rpn_pre_nms_top_n, boxes) if p.rpn_pre_nms_top_n > 0 else boxes
    return Flops(0, 16 * images * (boxes + taken * min(taken, p.rpn_post_nms_top_n)))


for _name, _images, _doc in (
    ("_contrib_Proposal", 1, "of one image"),
    ("_contrib_MultiProposal", None, "of each image"),
):
    register_op(
        _name,
        params=ProposalParams,
        inputs=("cls_prob", "bbox_pred", "im_info"),
        outputs=("output", "score"),
        visible_outputs=lambda p: 1 + p.output_score,
        infer_shape=_shapes(_images),
        infer_type=float_type,
        gradient=no_gradient,
        flops=_proposal_flops,
        not_derivative=STOPPED,
        doc=f"The best boxes {_doc} after non-maximum suppression: rows of image number, left, top, right, bottom in "
        "pixels, and their scores. cls_prob holds the background's scores before those of objects; im_info is height, "
        "width and scale of each image. A box in the padding beside the image, or too small, has score -1; "
        "equal scores keep their order.",
    )
