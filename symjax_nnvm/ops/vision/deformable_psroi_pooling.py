"""DeformablePSROIPooling (Dai et al. 2017): means of bilinear samples in bins that learned offsets move.

The bins of a derivative of the map are one operator, as the columns of deformable convolution are, and the offsets of
bins go and come through two linear operators; so every order of differentiation follows.
"""

from __future__ import annotations

from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Sizes
from symjax_nnvm.ir.rules.linear import At, gradient_as, linear
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.ops.vision.roi_align import sampled_flops, with_rank
from symjax_nnvm.ops.vision.roi_pooling import need_channels


class DeformablePSROIPoolingParams(Params):
    spatial_scale: float = param(ge=0, le=1, doc="size of data relative to the image that regions are given in")
    output_dim: int = param(ge=1, doc="number of channels of the result")
    group_size: int = param(ge=1, doc="number of groups of channels in each axis of bins")
    pooled_size: int = param(ge=1, doc="number of bins in each axis")
    part_size: int = param(0, ge=0, doc="number of offsets in each axis of bins; 0: pooled_size")
    sample_per_part: int = param(1, ge=1, doc="number of samples in each axis of a bin")
    trans_std: float = param(0.0, ge=0, le=1, doc="factor of offsets, which are relative to the region's size")
    no_trans: bool = param(False, doc="leave the offsets out")

    @property
    def parts(self) -> int:
        """The number of offsets in each axis of bins."""
        return self.part_size or self.pooled_size


class SlopesParams(DeformablePSROIPoolingParams):
    order: Tuple = param((0, 0), ge=0, le=1, doc="how often the bins are differentiated by their offsets in y and in x")

    def check(self) -> str | None:
        if len(self.order) != 2:
            return f"Parameter order={self.order}: expected one number for y and one for x"
        return None


class OffsetParams(DeformablePSROIPoolingParams):
    axis: int = param(ge=0, le=1, doc="the offsets in y (0) or in x (1)")


# -- shapes ----------------------------------------------------------------------------------------------------------


def _offset_shape(p: DeformablePSROIPoolingParams, trans: Shape | None, regions: int | None) -> Shape:
    """trans (r, 2 · classes, parts, parts): every class of channels of the result has offsets of its own."""
    trans = with_rank(trans, 4, "trans", "(regions, 2 · classes, parts, parts)")
    twice = trans[1]
    if twice is not None and (twice < 2 or twice % 2 or p.output_dim % (twice // 2)):
        raise InferenceError(
            "Offsets in x and y for each class, which share out the channels of the result",
            input="trans",
            expected=f"twice a divisor of output_dim={p.output_dim}",
            got=twice,
        )
    return (known(trans[0], regions), twice, p.parts, p.parts)


def _pooling_shapes(p: DeformablePSROIPoolingParams, ins: Shapes, outs: Shapes):
    """data (n, output_dim · groups², h, w), rois (r, 5), [trans (r, 2 · classes, parts, parts)] →
    output (r, output_dim, p, p), number of samples in each bin (r, output_dim, p, p)."""
    data = with_rank(ins[0], 4, "data", "(images, channels, h, w)")
    need_channels(p.output_dim * p.group_size**2, data[1])
    rois = with_rank(ins[1], 2, "rois", "(regions, 5)")
    regions = known(rois[0], *(out[0] for out in outs if out), *(trans[0] for trans in ins[2:] if trans))
    offsets = [_offset_shape(p, trans, regions) for trans in ins[2:]]
    return [data, (regions, 5), *offsets], [(regions, p.output_dim, p.pooled_size, p.pooled_size)] * len(outs)


def _of_bins_shapes(p: OffsetParams, ins: Shapes, outs: Shapes):
    """trans (r, 2 · classes, parts, parts) → (r, output_dim, p, p)."""
    regions = known(*(shape[0] for shape in (*ins, *outs) if shape))
    return [_offset_shape(p, ins[0], regions)], [(regions, p.output_dim, p.pooled_size, p.pooled_size)]


# -- gradients -------------------------------------------------------------------------------------------------------

_SHARED = tuple(DeformablePSROIPoolingParams.__dataclass_fields__)


def _shared(node: Node) -> dict[str, Any]:
    """The parameters that all of the operators have."""
    return {name: getattr(node.attrs.parsed, name) for name in _SHARED}


def _by_offsets(node: Node, weight: NodeEntry, at: At) -> NodeEntry | None:
    """The gradient by the offsets of <weight, bins>: bins of the next derivative, added up over the bins of a part.

    The map is linear between elements: a second derivative in one axis is 0.
    """
    order: Tuple = node.attrs.parsed.order
    total: NodeEntry | None = None
    for axis in range(2):
        if order[axis]:
            continue
        steeper = tuple(at + (i == axis) for i, at in enumerate(order))
        slopes = apply("_backward_DeformablePSROIPooling_slopes", *at.values(), order=steeper, **_shared(node))
        part = apply("elemwise_mul", weight, slopes)
        part = apply("_backward_DeformablePSROIPooling_trans", part, at["trans"], axis=axis, **_shared(node))
        total = part if total is None else apply("elemwise_add", total, part)
    return total


def _pooling_gradient(node: Node, ograds: Entries):
    """Bins are the slopes' operator that differentiates by no offset."""
    slopes = "_backward_DeformablePSROIPooling_slopes"
    return gradient_as(slopes, node.inputs, ograds[0], order=(0, 0), **_shared(node))


def _bins(p: DeformablePSROIPoolingParams, ins: Sizes, outs: Sizes) -> int:
    """Whether each sample of each bin is inside the map."""
    classes = ins[2][1] // 2 if len(ins) > 2 and len(ins[2]) == 4 else 1
    regions = next(shape[0] for shape in ins if len(shape) == 2)
    return regions * classes * p.pooled_size**2 * p.sample_per_part**2


register_op(
    "_contrib_DeformablePSROIPooling",
    params=DeformablePSROIPoolingParams,
    inputs=("data", "rois", "trans"),
    inputs_used=lambda p: ("data", "rois", "trans")[: 3 - p.no_trans],
    outputs=("output", "top_count"),
    visible_outputs=1,
    infer_shape=_pooling_shapes,
    infer_type=float_type,
    flops=sampled_flops(lambda p: p.sample_per_part),
    workspace=_bins,
    drawing="convolution",
    gradient=_pooling_gradient,
    doc="The mean of bilinear samples in each bin of regions, from channels of the bin's own group, where offsets move "
    "the bins. rois (r, 5): number of the image, x and y of the first and of the last corner, which are rounded and "
    "scaled. trans (r, 2 · classes, parts, parts): offsets in x and in y. Samples outside the map do not count.",
)
register_op(
    "_backward_DeformablePSROIPooling_slopes",
    params=SlopesParams,
    inputs=("data", "rois", "trans"),
    inputs_used=lambda p: ("data", "rois", "trans")[: 3 - p.no_trans],
    infer_shape=_pooling_shapes,
    infer_type=float_type,
    workspace=_bins,
    doc="The bins of DeformablePSROIPooling, or a derivative of them by their offsets.",
)
linear(
    "_backward_DeformablePSROIPooling_slopes",
    of="data",
    adjoint="_backward_DeformablePSROIPooling_data",
    workspace=_bins,
    others={"trans": _by_offsets},
    doc="Gradient of the data of DeformablePSROIPooling: head gradients added up where samples were taken.",
)
register_op(
    "_backward_DeformablePSROIPooling_bins",
    params=OffsetParams,
    inputs=("trans",),
    infer_shape=_of_bins_shapes,
    infer_type=float_type,
    doc="The offset, in one axis, that moves each bin.",
)
linear(
    "_backward_DeformablePSROIPooling_bins",
    of="trans",
    adjoint="_backward_DeformablePSROIPooling_trans",
    doc="Values of bins added up for the offset that moves them, in the shape of trans.",
)
