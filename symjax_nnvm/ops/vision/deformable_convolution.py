"""Deformable convolution (Dai et al. 2017) and its modulated form (Zhu et al. 2019).

Every element of the window is read at its own place plus a learned offset, bilinearly. What is read makes columns, as
im2col would; the rest is a convolution with a window of 1 × 1. So are the gradients composed: by the columns of that
convolution, by the data with the transpose of reading, by the offsets with columns of the map's slopes. The columns of
any derivative are one operator, so that every order of differentiation follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar, Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Tuple, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known, size_of
from symjax_nnvm.ir.rules.costs import Sizes
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.rules.named_dims import of_rank
from symjax_nnvm.ir.types import Dim, Shape
from symjax_nnvm.ops.nn.convolution import (
    ConvolutionGeometry,
    Window,
    WindowParams,
    convolution_flops,
    convolution_shapes,
    output_size,
)

Border = Literal["last", "zero"]


def _two_sizes(p: Window) -> str | None:
    if len(p.kernel) != 2:
        return f"Parameter kernel={p.kernel}: only windows of two sizes can be deformed"
    return None


def _not_deformable(p: ConvolutionGeometry) -> str | None:
    if p.layout not in (None, "NCHW"):
        return f"Parameter layout={p.layout!r}: only NCHW can be deformed"
    return _two_sizes(p)


class DeformableConvolutionParams(ConvolutionGeometry):
    positional: ClassVar = (
        *("kernel", "stride", "dilate", "pad", "num_filter"),
        *("num_group", "num_deformable_group", "workspace", "no_bias", "layout"),
    )
    num_deformable_group: int = param(1, ge=1, doc="number of groups of channels with offsets of their own")
    no_bias: bool = param(False, doc="leave the bias out")
    workspace: int = param(1024, ge=0, le=8192, doc="memory limit in MB; accepted and without effect")
    layout: Literal["NCDHW", "NCHW", "NCW"] | None = param(None, doc="order of the axes of data; None: channels first")

    def check(self) -> str | None:
        return _not_deformable(self) or super().check()


class ModulatedDeformableConvolutionParams(ConvolutionGeometry):
    positional: ClassVar = (
        *("kernel", "stride", "dilate", "pad", "num_filter", "num_group"),
        *("num_deformable_group", "workspace", "no_bias", "im2col_step", "layout"),
    )
    num_deformable_group: int = param(1, ge=1, doc="number of groups of channels with offsets and masks of their own")
    no_bias: bool = param(False, doc="leave the bias out")
    workspace: int = param(1024, ge=0, le=8192, doc="memory limit in MB; accepted and without effect")
    layout: Literal["NCDHW", "NCHW", "NCW"] | None = param(None, doc="order of the axes of data; None: channels first")
    im2col_step: int = param(64, ge=1, doc="number of images at a time; accepted and without effect")

    def check(self) -> str | None:
        return _not_deformable(self) or super().check()


AnyParams = DeformableConvolutionParams | ModulatedDeformableConvolutionParams


class ColumnsParams(WindowParams):
    kernel: Tuple = param(ge=1, doc="window: two spatial sizes")
    pad: Tuple = param((), ge=0, doc="how far the window begins before data in each spatial axis; (): 0")
    num_deformable_group: int = param(1, ge=1, doc="number of groups of channels with offsets of their own")
    border: Border = param("last", doc="the values beyond the last element: the last, or zeros around the data")
    order: Tuple = param((0, 0), ge=0, le=1, doc="how often the map is differentiated in y and in x")

    def check(self) -> str | None:
        if len(self.order) != 2:
            return f"Parameter order={self.order}: expected one number for y and one for x"
        return super().check() or _two_sizes(self)


# -- shapes ----------------------------------------------------------------------------------------------------------


def _share(channels: Dim, groups: int) -> None:
    if channels is not None and channels % groups:
        raise InferenceError(
            "Input channels must be divisible by the number of deformable groups",
            param="num_deformable_group",
            expected=f"a divisor of {channels} channels",
            got=groups,
        )


def _of_four(shape: Shape | None, name: str) -> Shape:
    return of_rank(shape, 4, f"Input {name} should be 4D in batch-channel-y-x", input=name)


def _convolution_shapes(modulated: bool) -> Callable[[Any, Shapes, Shapes], tuple[Shapes, Shapes]]:
    def rule(p: AnyParams, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        """data (n, c, h, w), offset (n, 2 · groups · window, h', w'), [mask (n, groups · window, h', w')],
        weight (f, c / groups, …k), bias (f,) → (n, f, h', w')."""
        data, offset, *others = ins
        fields = [_of_four(offset, "offset")]
        if modulated:
            mask, *others = others
            fields.append(_of_four(mask, "mask"))
        out = _of_four(outs[0], "output")
        batch = known(out[0], *(field[0] for field in fields))
        sizes = [known(out[axis], *(field[axis] for field in fields)) for axis in (2, 3)]
        inputs, (out,) = convolution_shapes(p, [data, *others], [(batch, out[1], *sizes)])
        data, *others = inputs
        assert data is not None
        assert out is not None
        _share(data[1], p.num_deformable_group)
        places = (size_of(p.kernel) or 1) * p.num_deformable_group
        shapes = [(out[0], factor * places, out[2], out[3]) for factor in ((2, 1) if modulated else (2,))]
        return [data, *shapes, *others], [out]

    return rule


def _columns_shapes(p: ColumnsParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w), offset (n, 2 · groups · window, h', w') → columns (n, c · window, h', w')."""
    data, offset = _of_four(ins[0], "data"), _of_four(ins[1], "offset")
    columns = _of_four(outs[0], "columns")
    batch = known(data[0], offset[0], columns[0])
    rows = columns[1]
    channels = known(data[1], None if rows is None else rows // p.window_size)
    rows = None if channels is None else channels * p.window_size
    places = [output_size(size, step) for size, step in zip(data[2:], p.steps, strict=True)]
    sizes = [known(places[i], offset[2 + i], columns[2 + i]) for i in range(2)]
    offset = (batch, 2 * p.num_deformable_group * p.window_size, *sizes)
    return [(batch, channels, *data[2:]), offset], [(batch, rows, *sizes)]


# -- columns and their gradients -------------------------------------------------------------------------------------


def _split(columns: NodeEntry, p: ColumnsParams) -> NodeEntry:
    """(n, c · window, h, w) → (n, groups, c / groups, window, h, w)."""
    channels = apply("Reshape", columns, shape=(0, -4, -1, p.window_size, 0, 0))
    return apply("Reshape", channels, shape=(0, -4, p.num_deformable_group, -1, 0, 0, 0))


def _by_offset(p: ColumnsParams, weight: NodeEntry, data: NodeEntry, offset: NodeEntry) -> NodeEntry | None:
    """The gradient by the offsets of <weight, columns>: the columns of the next derivative, summed over channels.

    The map is linear between elements: a second derivative in one axis is 0.
    """
    parts: list[NodeEntry | None] = []
    for axis in range(2):
        if p.order[axis]:
            parts.append(None)
            continue
        steeper = replace(p, order=tuple(at + (i == axis) for i, at in enumerate(p.order)))
        slopes = _columns(steeper, data, offset)
        parts.append(apply("sum", _split(apply("elemwise_mul", weight, slopes), p), axis=2))
    model = next((part for part in parts if part is not None), None)
    if model is None:
        return None
    both = [apply("zeros_like", model) if part is None else part for part in parts]
    return apply("reshape_like", apply("stack", *both, axis=3, num_args=2), offset)


def _columns(p: ColumnsParams, data: NodeEntry, offset: NodeEntry) -> NodeEntry:
    return apply("_backward_DeformableConvolution_columns", data, offset, **vars(p))


def _spread(p: ColumnsParams, columns: NodeEntry, offset: NodeEntry, data: NodeEntry) -> NodeEntry:
    return apply("_backward_DeformableConvolution_data", columns, offset, data, **vars(p))


register_op(
    "_backward_DeformableConvolution_columns",
    params=ColumnsParams,
    inputs=("data", "offset"),
    infer_shape=_columns_shapes,
    infer_type=float_type,
    doc="What the windows of a deformable convolution read from data, or from a derivative of data by the coordinates.",
)
linear(
    "_backward_DeformableConvolution_columns",
    of="data",
    adjoint="_backward_DeformableConvolution_data",
    inputs=("ograd", "offset", "data"),
    others={"offset": lambda node, dy, at: _by_offset(node.attrs.parsed, dy, at["data"], at["offset"])},
    doc="Gradient of the data that the windows of a deformable convolution read: columns added up where they were.",
)

# -- the convolutions ------------------------------------------------------------------------------------------------


def columns_params(p: AnyParams, border: Border) -> ColumnsParams:
    """The parameters of a convolution that decide where its windows read."""
    return ColumnsParams(
        kernel=p.kernel,
        stride=p.stride,
        dilate=p.dilate,
        pad=p.pad,
        num_deformable_group=p.num_deformable_group,
        border=border,
    )


def _through_weight(node: Node, dy: NodeEntry, columns: NodeEntry, weight: NodeEntry) -> tuple[NodeEntry, NodeEntry]:
    """The gradients of columns and weight: those of a convolution with a window of 1 × 1."""
    p: AnyParams = node.attrs.parsed
    point = {"kernel": (1, 1), "num_filter": p.num_filter, "num_group": p.num_group}
    flat = apply("Reshape", weight, shape=(0, -1, 1, 1))
    of_weight = apply("_backward_Convolution_weight", dy, columns, **point)
    return apply("_backward_Convolution_data", dy, flat, columns, **point), apply("reshape_like", of_weight, weight)


def _of_bias(p: AnyParams, dy: NodeEntry) -> Sequence[NodeEntry]:
    return () if p.no_bias else (apply("sum", dy, axis=1, exclude=True),)


def _deformable_gradient(node: Node, ograds: Entries):
    """Y = W C(X, O): by the columns C of X and O."""
    p: DeformableConvolutionParams = node.attrs.parsed
    window = columns_params(p, "last")
    data, offset, weight, *_ = node.inputs
    columns = _columns(window, data, offset)
    of_columns, of_weight = _through_weight(node, ograds[0], columns, weight)
    of_offset = _by_offset(window, of_columns, data, offset)
    return [_spread(window, of_columns, offset, data), of_offset, of_weight, *_of_bias(p, ograds[0])]


def _modulated_gradient(node: Node, ograds: Entries):
    """Y = W (M · C(X, O)): by the columns C of X and O, and by the mask M, which all channels of a group share."""
    p: ModulatedDeformableConvolutionParams = node.attrs.parsed
    window = columns_params(p, "zero")
    data, offset, mask, weight, *_ = node.inputs
    columns = _columns(window, data, offset)
    apart = _split(columns, window)
    shared = apply("Reshape", mask, shape=(0, -4, p.num_deformable_group, -1, 0, 0))
    shared = apply("expand_dims", shared, axis=2)
    masked = apply("reshape_like", apply("broadcast_mul", apart, shared), columns)
    of_masked, of_weight = _through_weight(node, ograds[0], masked, weight)
    of_masked = _split(of_masked, window)
    of_mask = apply("reshape_like", apply("sum", apply("elemwise_mul", of_masked, apart), axis=2), mask)
    of_columns = apply("reshape_like", apply("broadcast_mul", of_masked, shared), columns)
    of_offset = _by_offset(window, of_columns, data, offset)
    return [_spread(window, of_columns, offset, data), of_offset, of_mask, of_weight, *_of_bias(p, ograds[0])]


def _column_elements(p: Any, ins: Sizes, outs: Sizes) -> int:
    """The windows of data as columns."""
    n, channels = ins[0][:2]
    return n * channels * prod(p.kernel) * prod(outs[0][2:])


register_op(
    "_contrib_DeformableConvolution",
    params=DeformableConvolutionParams,
    inputs=("data", "offset", "weight", "bias"),
    inputs_used=lambda p: ("data", "offset", "weight") if p.no_bias else ("data", "offset", "weight", "bias"),
    infer_shape=_convolution_shapes(modulated=False),
    infer_type=float_type,
    gradient=_deformable_gradient,
    flops=convolution_flops,
    workspace=_column_elements,
    drawing="convolution",
    doc="Convolution whose windows read each element at its place plus an offset (y, x) from the input `offset` "
    "(Dai et al. 2017). Beyond the last element of data comes the last element, before the first and a step beyond the "
    "last come zeros.",
)
register_op(
    "_contrib_ModulatedDeformableConvolution",
    params=ModulatedDeformableConvolutionParams,
    inputs=("data", "offset", "mask", "weight", "bias"),
    inputs_used=lambda p: ("data", "offset", "mask", "weight", "bias")[: 5 - p.no_bias],
    infer_shape=_convolution_shapes(modulated=True),
    infer_type=float_type,
    gradient=_modulated_gradient,
    flops=convolution_flops,
    workspace=_column_elements,
    drawing="convolution",
    doc="Deformable convolution whose windows also weigh each element they read with the input `mask` (Zhu et al. "
    "2019). Around data there are zeros. Works everywhere, where MXNet needs a GPU, and for batches that im2col_step "
    "does not divide.",
)
