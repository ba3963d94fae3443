"""ROIAlign (He et al. 2017), upright and rotated (Ma et al. 2018): means of bilinear samples in the bins of regions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import ShapeRule, Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, FlopsRule, Sizes, WorkspaceRule
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Shape, format_shape


def with_rank(shape: Shape | None, ndim: int, name: str, form: str) -> Shape:
    """A shape, or as many unknown dimensions. Raises InferenceError when it has another number of axes."""
    if shape is None:
        return (None,) * ndim
    if len(shape) != ndim:
        raise InferenceError(
            f"{name} should be a {ndim}D tensor {form}", expected=f"{ndim} axes", got=format_shape(shape)
        )
    return shape


def region_shapes(
    pooled: Callable[[Any], tuple[int, ...]], channels: Callable[[Any], int | None], columns: int
) -> ShapeRule:
    """The rule of data (n, c, h, w), rois (r, columns) → (r, c', p, q), whose bins and channels the parameters say.

    channels: how many channels of data make one of the result; None: it is not known.
    """

    def rule(p: Any, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data = with_rank(ins[0], 4, "data", "(images, channels, h, w)")
        rois = with_rank(ins[1], 2, "rois", f"(regions, {columns})")
        out = with_rank(outs[0], 4, "output", "(regions, channels, bins, bins)")
        factor, channels_given = channels(p), data[1]
        shape = out[1]
        if factor is not None and channels_given is not None:
            if channels_given % factor:
                raise InferenceError(
                    "Input channels should be divisible by pooled_size[0]*pooled_size[1]",
                    param="pooled_size",
                    expected=f"a multiple of {factor} channels",
                    got=channels_given,
                )
            shape = channels_given // factor
        elif factor is not None and shape is not None:
            channels_given = shape * factor
        regions = known(rois[0], out[0])
        return [(data[0], channels_given, *data[2:]), (regions, columns)], [(regions, shape, *pooled(p))]

    return rule


class BinsParams(Params):
    pooled_size: Tuple = param(ge=1, doc="number of bins (h, w)")
    spatial_scale: float = param(ge=0, le=1, doc="size of data relative to the image that regions are given in")

    def check(self) -> str | None:
        if len(self.pooled_size) != 2:
            return f"Parameter pooled_size={self.pooled_size} has wrong dimensions, expected dimension=2"
        return None


class ROIAlignParams(BinsParams):
    sample_ratio: int = param(-1, doc="samples per bin in each axis; ≤ 0: as many as a bin has elements, rounded up")
    position_sensitive: bool = param(False, doc="take each bin from channels of its own")
    aligned: bool = param(False, doc="an element's place is its middle, half an element further")


class RROIAlignParams(BinsParams):
    sampling_ratio: int = param(-1, doc="samples per bin in each axis; ≤ 0: as many as a bin has elements, rounded up")


def _channels_per_result(p: ROIAlignParams) -> int:
    return p.pooled_size[0] * p.pooled_size[1] if p.position_sensitive else 1


def _region_weights(p: Any, ins: Sizes, outs: Sizes) -> int:
    """The weight of each element of an axis in each bin, and the bins of one axis."""
    data = next(shape for shape in (*ins, *outs) if len(shape) == 4)
    regions = next(shape[0] for shape in ins if len(shape) == 2)
    height, width = data[-2:]
    return regions * (p.pooled_size[0] * height + p.pooled_size[1] * width + data[1] * p.pooled_size[0] * width)


def _rotated_samples(p: Any, ins: Sizes, outs: Sizes) -> int:
    """Places of the samples of every bin; a number that follows from the regions is computed one sample at a time."""
    regions = next(shape[0] for shape in ins if len(shape) == 2)
    return 4 * regions * prod(p.pooled_size) * max(p.sampling_ratio, 1) ** 2


def sampled_flops(samples: Callable[[Any], int]) -> FlopsRule:
    """Four elements for each sample of a bin. samples: parameters → how many an axis of a bin has; 0: unknown."""
    return lambda p, ins, outs: Flops(4 * prod(outs[0]) * max(samples(p), 2) ** 2)


def register_linear_pooling(
    forward: str,
    params: type,
    infer_shape: ShapeRule,
    doc: str,
    backward: str,
    aliases: tuple[str, ...] = (),
    workspaces: tuple[WorkspaceRule | None, WorkspaceRule | None] = (None, None),
    **card: Any,
) -> None:
    """Register an operator of data and rois that is linear in the data, and its transpose. card: more of the
    first, as of `register_op`."""
    register_op(
        forward,
        aliases=aliases,
        params=params,
        inputs=("data", "rois"),
        infer_shape=infer_shape,
        infer_type=float_type,
        workspace=workspaces[0],
        doc=doc,
        **card,
    )
    linear(
        forward,
        of="data",
        adjoint=backward,
        workspace=workspaces[1],
        doc=f"Gradient of the data of {forward.removeprefix('_contrib_')}, its transpose.",
    )


register_linear_pooling(
    "_contrib_ROIAlign",
    ROIAlignParams,
    region_shapes(lambda p: p.pooled_size, _channels_per_result, 5),
    "Means of bilinear samples in the bins of regions. rois (r, 5): number of the image, x and y of the first and of "
    "the last corner. A region of an image that does not exist gives zeros. Nothing flows to the regions.",
    "_backward_ROIAlign",
    workspaces=(_region_weights, _region_weights),
    flops=sampled_flops(lambda p: p.sample_ratio),
    drawing="pooling",
)
register_linear_pooling(
    "_contrib_RROIAlign",
    RROIAlignParams,
    region_shapes(lambda p: p.pooled_size, lambda p: 1, 6),
    "Means of bilinear samples in the bins of rotated regions. rois (r, 6): number of the image, x and y of the "
    "centre, width, height, angle in degrees. Unlike MXNet's it has a gradient.",
    "_backward_RROIAlign",
    workspaces=(_rotated_samples, _rotated_samples),
    flops=sampled_flops(lambda p: p.sampling_ratio),
)
