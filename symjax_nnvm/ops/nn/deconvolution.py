"""Deconvolution: the data gradient of Convolution as an operator of its own, with every option of its shape."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.params import Tuple, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.layout_rules import ChannelsLast, Corrected, windowed
from symjax_nnvm.ir.rules.linear import Adjoint, multilinear
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ir.types import Dim
from symjax_nnvm.ops.nn.convolution import (
    ConvolutionGeometry,
    Step,
    Tuning,
    arranged,
    bias_gradient,
    is_channel_axis,
    padded,
    ranked,
    spread,
    unequal_ranks,
    weight_channels,
)
from symjax_nnvm.ops.nn.scale_shift import scaled_product


class DeconvolutionGeometry(ConvolutionGeometry):
    adj: Tuple = param((), ge=0, doc="elements added at the end of each spatial axis, fewer than its stride; (): none")
    target_shape: Tuple = param((), ge=0, doc="spatial sizes of the output; pad and adj then follow from it")

    def check(self) -> str | None:
        problem = super().check()
        if problem:
            return problem
        if self.adj and len(self.adj) != len(self.kernel):
            return unequal_ranks("adj", self.adj, self.kernel)
        if not self.has_target:
            for adj, (_, stride, _, _) in zip(self.adj, self.steps, strict=False):
                if adj >= stride:
                    return f"Parameter adj={self.adj}: adj must be smaller than stride, which is {self.stride or 1}"
        elif len(self.target_shape) != len(self.kernel):
            return unequal_ranks("target_shape", self.target_shape, self.kernel)
        elif 0 in self.target_shape:
            return f"Parameter target_shape={self.target_shape}: expected a size ≥ 1 for every spatial axis, or none"
        return None

    @property
    def has_target(self) -> bool:
        """Whether target_shape is set: MXNet's older files write zeros for none."""
        return any(self.target_shape)

    @property
    def targets(self) -> tuple[int | None, ...]:
        """The wanted size of each spatial axis, or None."""
        return self.target_shape if self.has_target else (None,) * len(self.kernel)

    @property
    def adjustments(self) -> Tuple:
        """The parameter adj, one number for each spatial axis."""
        return self.adj or (0,) * len(self.kernel)


class DeconvolutionParams(DeconvolutionGeometry):
    positional: ClassVar = (
        *("kernel", "stride", "dilate", "pad", "adj", "target_shape", "num_filter"),
        *("num_group", "workspace", "no_bias", "cudnn_tune", "cudnn_off", "layout"),
    )
    no_bias: bool = param(True, doc="leave the bias out; unlike Convolution's it is left out unless asked for")
    workspace: int = param(512, ge=0, le=8192, doc="memory limit of cuDNN in MB; accepted and without effect")
    cudnn_tune: Tuning | None = param(None, doc="cuDNN's choice of algorithm; accepted and without effect")
    cudnn_off: bool = param(False, doc="accepted and without effect")


def _margins(size: int, step: Step, adj: int, target: int | None) -> tuple[int, int]:
    """(padding, adjustment) of an axis of data of a size: the parameters, or those that lead to the target."""
    kernel, stride, _, pad = step
    if target is None:
        return pad, adj
    surplus = (size - 1) * stride + kernel - target
    if surplus < 0:
        raise InferenceError(
            "too big target shape", param="target_shape", expected=f"at most {target + surplus}", got=target
        )
    if surplus % 2 >= stride:
        raise InferenceError(
            "A target that needs an adjustment, which must be smaller than the stride",
            param="target_shape",
            expected=f"{target + surplus} less an even number, since the stride is {stride}",
            got=target,
        )
    return (surplus + 1) // 2, surplus % 2


def _output_size(size: Dim, step: Step, adj: int, target: int | None) -> Dim:
    if size is None:
        return target
    pad, adj = _margins(size, step, adj, target)
    kernel, stride, _, _ = step
    result = (size - 1) * stride + kernel - 2 * pad + adj
    if not is_at_most(1, result):
        raise InferenceError(
            "The padding leaves nothing of the output",
            param="pad",
            expected=f"at most {(result + 2 * pad - 1) // 2}",
            got=pad,
        )
    return result


def _input_size(size: Dim, step: Step, adj: int, target: int | None) -> Dim:
    """The input size of an output size; with a target several inputs have it."""
    if size is None or target is not None:
        return None
    kernel, stride, _, pad = step
    room = size + 2 * pad - kernel - adj
    if room < 0 or room % stride:
        raise InferenceError(
            "No input has an output of this size",
            param="stride",
            expected=f"{kernel + adj - 2 * pad} plus a multiple of {stride}",
            got=size,
        )
    return room // stride + 1


def _deconvolution_shapes(p: DeconvolutionGeometry, ins: Shapes, outs: Shapes):
    """data (n, c, …d), weight (c, f / groups, …k), bias (f,) → (n, f, …), arranged as the layout says."""
    data, out = ranked(ins[0], p, "data"), ranked(outs[0], p, "output")
    weight = ranked(ins[1], p, "weight")
    channels = known(data[p.channel_axis], weight[0])
    weight_channels(p, channels)  # the groups share them out
    batch = known(data[0], out[0])
    sizes: list[Dim] = []
    results: list[Dim] = []
    for axis, step, adj, target in zip(p.spatial_axes, p.steps, p.adjustments, p.targets, strict=True):
        sizes.append(known(data[axis], _input_size(out[axis], step, adj, target)))
        results.append(_output_size(sizes[-1], step, adj, target))
    inputs = [arranged(p, batch, channels, sizes), arranged(p, channels, p.num_filter // p.num_group, p.kernel)]
    if len(ins) > 2:
        inputs.append((p.num_filter,))
    return inputs, [arranged(p, batch, p.num_filter, results)]


def transposed(p: DeconvolutionGeometry, data: tuple[int, ...]) -> tuple[ConvolutionGeometry, tuple[int, ...]]:
    """The convolution whose data gradient a deconvolution of data (n, c, …d) is, and the shape of its data."""
    rows = zip(p.spatial_axes, p.steps, p.adjustments, p.targets, strict=True)
    pads = tuple(_margins(data[axis], step, adj, target)[0] for axis, step, adj, target in rows)
    shapes = [data, None]
    _, (shape,) = _deconvolution_shapes(p, shapes, [None])
    geometry = ConvolutionGeometry(
        kernel=p.kernel,
        stride=p.stride,
        dilate=p.dilate,
        pad=pads,
        num_filter=data[p.channel_axis],
        num_group=p.num_group,
        layout=p.layout,
    )
    return geometry, tuple(dim for dim in shape if dim is not None)


def _with_weight(p: DeconvolutionParams, order: ChannelsLast) -> Corrected | None:
    """Data and weight have the same order of axes, which has a name over two and three of space."""
    corrected = windowed(p, order) if order.ndim > 3 else None
    return corrected and corrected._replace(inputs=2)


def _deconvolution_flops(p: DeconvolutionParams, ins: Sizes, outs: Sizes) -> Flops:
    """Each input element is spread over the window and its group's output channels: the weight (c, f / groups, …k)."""
    channels = ins[0][p.channel_axis]
    return Flops(prod(ins[0]) * (prod(ins[1]) // max(channels, 1)), 0 if p.no_bias else prod(outs[0]))


def _scaled_deconvolution(node: Node, scale: NodeEntry, shift: NodeEntry, axis: int) -> Node | None:
    """Filters stand on the weight's channel axis, those of each group next to its share of the first axis."""
    p: DeconvolutionParams = node.attrs.parsed
    along = tuple(-1 if i == p.channel_axis else 1 for i in range(len(p.axes)))
    return scaled_product(node, scale, shift, along, p.num_group) if is_channel_axis(p, axis) else None


register_op(
    "Deconvolution",
    samples="each",
    aliases=("_npx_deconvolution",),
    params=DeconvolutionParams,
    inputs=("data", "weight", "bias"),
    inputs_used=lambda p: ("data", "weight") if p.no_bias else ("data", "weight", "bias"),
    infer_shape=_deconvolution_shapes,
    infer_type=float_type,
    drawing="convolution",
    flops=_deconvolution_flops,
    workspace=spread,
    precision="half",
    layout=_with_weight,
    FScaled=_scaled_deconvolution,
    doc="Transposed convolution: the data gradient of the Convolution with this window, as an operator. An axis of d "
    "elements gets stride · (d - 1) + kernel - 2 · pad + adj, or what target_shape says. Works over one, two and three "
    "axes, dilated or not, in every layout; the weight has that of data with its channels for the batch: "
    "(c, f / groups, h, w), or (c, h, w, f / groups) for NHWC.",
)
multilinear(
    "Deconvolution",
    of={
        "data": Adjoint(
            "_backward_Deconvolution_data",
            ("ograd", "weight", "data"),
            attributes={"workspace": padded(lambda ins, outs: ins[0])},
        ),
        "weight": Adjoint(
            "_backward_Deconvolution_weight",
            ("ograd", "data"),
            attributes={"workspace": padded(lambda ins, outs: ins[0])},
        ),
    },
    params=DeconvolutionGeometry,
    given=True,
    restored={"no_bias": True},
    others={"bias": bias_gradient},
)
