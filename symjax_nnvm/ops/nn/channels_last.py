"""Convolution as a CPU likes it: channels are the last axis of data, filters that of the weight.

AlterOpLayout makes these operators of Convolution; in files there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symjax_nnvm.ir.node import Node, NodeEntry, altered, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.layout_rules import ChannelsLast
from symjax_nnvm.ir.rules.named_dims import of_rank
from symjax_nnvm.ops.nn.convolution import (
    DEFAULT_LAYOUTS,
    ConvolutionGeometry,
    WindowParams,
    convolution_flops,
    differentiate,
    input_size,
    is_pointwise,
    output_size,
    padded,
    weight_channels,
)

MAX_PRODUCTS = 64
"""The most products in an output element of a grouped convolution for which shifted sums are fast: each product is an
operation of its own in the program."""


class ChannelsLastGeometry(WindowParams):
    num_filter: int = param(ge=1, doc="number of output channels")
    num_group: int = param(1, ge=1, doc="number of groups; each convolves its own share of the channels")

    @property
    def channel_axis(self) -> int:
        """The axis of channels in data and output."""
        return len(self.kernel) + 1

    @property
    def spatial_axes(self) -> tuple[int, ...]:
        """The axes of data and output that the window moves over."""
        return tuple(range(1, len(self.kernel) + 1))


class ChannelsLastParams(ChannelsLastGeometry):
    no_bias: bool = param(False, doc="leave the bias out")


def channels_last_shapes(p: ChannelsLastGeometry, ins: Shapes, outs: Shapes):
    """data (n, …d, c), weight (…k, c / groups, f), bias (f,) → (n, …, f)."""
    rank = len(p.kernel) + 2
    data, weight, out = (
        of_rank(shape, rank, f"Input {what} should be {rank}D for a kernel of {rank - 2} sizes", param="kernel")
        for shape, what in zip((ins[0], ins[1], outs[0]), ("data", "weight", "output"), strict=True)
    )
    share = weight[-2]
    channels = known(data[-1], None if share is None else share * p.num_group)
    batch = known(data[0], out[0])
    axes = list(zip(data[1:-1], out[1:-1], p.steps, strict=True))
    sizes = [known(size, input_size(result, step)) for size, result, step in axes]
    results = [known(output_size(size, step), axis[1]) for size, axis, step in zip(sizes, axes, p.steps, strict=True)]
    inputs = [(batch, *sizes, channels), (*p.kernel, known(weight_channels(p, channels), share), p.num_filter)]
    return [*inputs, *[(p.num_filter,)] * (len(ins) - 2)], [(batch, *results, p.num_filter)]


register_op(
    "_channels_last_convolution",
    samples="each",
    params=ChannelsLastParams,
    inputs=("data", "weight", "bias"),
    inputs_used=lambda p: ("data", "weight") if p.no_bias else ("data", "weight", "bias"),
    infer_shape=channels_last_shapes,
    infer_type=float_type,
    flops=convolution_flops,
    workspace=padded(lambda ins, outs: ins[0]),
    precision="half",
    recompute="if forced",
    drawing="convolution",
    doc="Convolution of data (n, …d, c) with a weight (…k, c / groups, f), plus a bias for each filter: (n, …, f).",
)
differentiate("_channels_last_convolution", ChannelsLastGeometry)


def _alter(node: Node, data: Callable[[int], NodeEntry], inputs: Sequence[NodeEntry]) -> NodeEntry | None:
    """FAlterOpLayout of Convolution; None where it has channels last already."""
    p: Any = node.attrs.parsed
    if p.axes not in DEFAULT_LAYOUTS:
        return None
    order = ChannelsLast(len(p.axes))
    weight, *bias = inputs[1:]
    laid = apply("transpose", weight, name=f"{node.name}_weight_laid", axes=(*range(2, order.ndim), 1, 0))
    convolution = Node(altered(node.attrs, "_channels_last_convolution"), [data(order.ndim), laid, *bias])
    return NodeEntry(convolution)


Op.get("Convolution").set_attr("FAlterOpLayout", _alter)


def _either(p: ConvolutionGeometry) -> bool:
    """Products and shifted sums are as fast with channels first: FEitherLayout of Convolution."""
    shifted = p.num_group > 1 and p.num_filter // p.num_group * p.window_size <= MAX_PRODUCTS
    return shifted or is_pointwise(p)


Op.get("Convolution").set_attr("FEitherLayout", _either)
