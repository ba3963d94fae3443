"""Pooling of whole elements in the bins of regions: ROIPooling (Girshick 2015), PSROIPooling (Dai et al. 2016)."""

from __future__ import annotations

from math import prod
from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, float_type, register_op
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ops.vision.roi_align import BinsParams, region_shapes, register_linear_pooling

# -- ROIPooling ------------------------------------------------------------------------------------------------------


class ROIPoolingParams(BinsParams):
    """The parameters of the bins."""


_pooled = region_shapes(lambda p: p.pooled_size, lambda p: 1, 5)


def _pooling_shapes(p: ROIPoolingParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w), rois (r, 5) → output (r, c, p, q), number of the greatest element (r, c, p, q)."""
    out = outs[0] if outs[0] is not None else outs[1]
    inputs, (out,) = _pooled(p, ins, [out])
    return inputs, [out, out]


def _pooling_types(p: ROIPoolingParams, ins: Types, outs: Types):
    """data, rois and output of one floating-point dtype; numbers of elements are integers."""
    inputs, outputs = float_type(p, ins, outs[:1])
    return inputs, [*outputs, "int32"]


def _numbered_types(p: ROIPoolingParams, ins: Types, outs: Types):
    """All inputs and outputs have one floating-point dtype, but for the numbers of elements, the second input."""
    first, _, *others = ins
    (first, *others), outputs = float_type(p, [first, *others], outs)
    return [first, "int32", *others], outputs


def _pick_shapes(p: ROIPoolingParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w), maxidx (r, c, p, q), rois (r, 5) → (r, c, p, q)."""
    data, numbers, rois = ins
    (data, rois), (out, numbers) = _pooling_shapes(p, [data, rois], [outs[0], numbers])
    return [data, numbers, rois], [out]


def _pooling_gradient(node: Node, ograds: Entries):
    """dX = dY at the first element that attains the maximum of its bin; nothing flows to the regions."""
    data, rois = node.inputs
    numbers = NodeEntry(node, 1, 0)
    return [apply("_backward_ROIPooling", ograds[0], numbers, data, rois, **vars(node.attrs.parsed)), None]


def _whole_map(p: Any, ins: Sizes, outs: Sizes) -> Flops:
    """A bin may be as large as the map."""
    return Flops(0, prod(outs[0]) * prod(ins[0][-2:]))


def _maxima(p: Any, ins: Sizes, outs: Sizes) -> int:
    """Maxima of data over windows of every power of two in both axes."""
    *_, height, width = ins[0]
    return prod(ins[0]) * height.bit_length() * width.bit_length()


def _sums(p: Any, ins: Sizes, outs: Sizes) -> int:
    """The summed map that each bin reads."""
    *_, height, width = ins[0]
    return prod(outs[0]) * (height + 1) * (width + 1)


register_op(
    "ROIPooling",
    aliases=("_npx_roi_pooling",),
    params=ROIPoolingParams,
    inputs=("data", "rois"),
    outputs=("output", "maxidx"),
    visible_outputs=1,
    infer_shape=_pooling_shapes,
    infer_type=_pooling_types,
    gradient=_pooling_gradient,
    flops=_whole_map,
    workspace=_maxima,
    deviation=Deviation("regions whose last corner comes before the first have a gradient; MXNet's is 0", "training"),
    drawing="pooling",
    doc="The greatest element in each bin of regions. rois (r, 5): number of the image, x and y of the first and of "
    "the last element, which are scaled and rounded. An empty bin gives 0. The gradient is the derivative for "
    "malformed regions too, for which MXNet has zeros.",
)
register_op(
    "_backward_ROIPooling_pick",
    params=ROIPoolingParams,
    inputs=("data", "maxidx", "rois"),
    infer_shape=_pick_shapes,
    infer_type=_numbered_types,
    doc="The elements of an array at the places where ROIPooling found the greatest ones.",
)
linear(
    "_backward_ROIPooling_pick",
    of="data",
    adjoint="_backward_ROIPooling",
    inputs=("ograd", "maxidx", "data", "rois"),
    doc="Gradient of the data of ROIPooling: head gradients added up at the elements that were the greatest.",
)

# -- PSROIPooling ----------------------------------------------------------------------------------------------------


class PSROIPoolingParams(Params):
    spatial_scale: float = param(ge=0, le=1, doc="size of data relative to the image that regions are given in")
    output_dim: int = param(ge=1, doc="number of channels of the result")
    pooled_size: int = param(ge=1, doc="number of bins in each axis")
    group_size: int = param(0, ge=0, doc="number of groups of channels in each axis of bins; 0: pooled_size")

    @property
    def groups(self) -> int:
        """The number of groups of channels in each axis of bins."""
        return self.group_size or self.pooled_size


def need_channels(needed: int, channels: int | None) -> None:
    """Raise InferenceError when data have too few channels for the groups of bins."""
    if channels is not None and channels < needed:
        raise InferenceError(
            "Every channel of the result has channels of its own for each group of bins",
            param="output_dim",
            expected=f"at least output_dim · group_size² = {needed} channels of data",
            got=channels,
        )


_in_groups = region_shapes(lambda p: (p.pooled_size, p.pooled_size), lambda p: None, 5)


def _grouped_shapes(p: PSROIPoolingParams, ins: Shapes, outs: Shapes):
    """data (n, output_dim · groups², h, w), rois (r, 5) → (r, output_dim, p, p)."""
    inputs, (out,) = _in_groups(p, ins, outs)
    (data, rois) = inputs
    assert data is not None
    assert out is not None
    need_channels(p.output_dim * p.groups**2, data[1])
    return [data, rois], [(out[0], p.output_dim, *out[2:])]


register_linear_pooling(
    "_contrib_PSROIPooling",
    PSROIPoolingParams,
    _grouped_shapes,
    "The mean of the elements in each bin of regions, from channels of the bin's own group. rois (r, 5): number of the "
    "image, x and y of the first and of the last corner, which are rounded and scaled. An empty bin gives 0. Data with "
    "too few channels are an error, where MXNet reads beyond them.",
    "_backward_PSROIPooling",
    flops=_whole_map,
    workspaces=(_sums, None),
)
