"""FullyConnected: a dense layer."""

from __future__ import annotations

from math import prod

from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, register_op
from symjax_nnvm.ir.rules.axes import completed, known, size_of, solve_sizes
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.quantized_form import quantized_as
from symjax_nnvm.ir.rules.samples import rows
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.ops.nn.scale_shift import product_of_scaled, scaled_product


class FullyConnectedParams(Params):
    num_hidden: int = param(ge=1, doc="length of the output's last axis")
    no_bias: bool = param(False, doc="leave the bias out")
    flatten: bool = param(True, doc="collapse all axes but the first before multiplying; else multiply the last axis")


def fully_connected_shapes(p: FullyConnectedParams, ins: Shapes, outs: Shapes):
    """data (n, ...), weight (h, d), bias (h,) → (n, h); without flatten data (..., d) → (..., h)."""
    data, weight, out = ins[0], ins[1], outs[0]
    depth = weight[-1] if weight else None
    if p.flatten:
        batch = known(data[0] if data else None, out[0] if out else None)
        if data:
            depth = known(size_of(data[1:]), depth)
            data = (batch, *(data[1:] if depth is None else solve_sizes(data[1:], (depth,))[0]))
        out = (batch, p.num_hidden)
    else:
        data = completed(data, None if out is None else (*out[:-1], depth))
        if data is not None:
            depth = known(data[-1] if data else None, depth)
            data, out = (*data[:-1], depth), (*data[:-1], p.num_hidden)
    bias = () if p.no_bias else ((p.num_hidden,),)
    return [data, (p.num_hidden, depth), *bias], [out]


def _fully_connected_gradient(node: Node, ograds: Entries):
    """dX = dY W, dW = dYᵀ X, db = sum of dY over rows."""
    p: FullyConnectedParams = node.attrs.parsed
    (dy,) = ograds
    x, w = node.inputs[:2]
    if p.flatten:
        rows, drows = apply("Flatten", x), dy
    else:
        rows = apply("Reshape", x, shape=(-1, 0), reverse=True)
        drows = apply("Reshape", dy, shape=(-1, 0), reverse=True)
    dx = apply("reshape_like", apply("dot", drows, w), x)
    dw = apply("dot", drows, rows, transpose_a=True)
    return [dx, dw] if p.no_bias else [dx, dw, apply("sum", drows, axis=0)]


def _scaled_fully_connected(node: Node, scale: NodeEntry, shift: NodeEntry, axis: int) -> Node | None:
    last = axis == -1 or (axis == 1 and node.attrs.parsed.flatten)
    return scaled_product(node, scale, shift, (-1, 1)) if last else None


def _fully_connected_of_scaled(
    node: Node, scale: NodeEntry, shift: NodeEntry, axis: int, shape: Shape | None
) -> Node | None:
    """The axis that is summed over must be that of the scale, and the last one."""
    rank = None if shape is None else len(shape)
    last = axis in (-1, None if rank is None else rank - 1)
    sums_it_alone = rank == 2 or not node.attrs.parsed.flatten
    return product_of_scaled(node, scale, shift, (1, -1)) if last and sums_it_alone else None


def fully_connected_flops(p: FullyConnectedParams, ins: Sizes, outs: Sizes) -> Flops:
    return Flops(prod(outs[0]) * ins[1][1], 0 if p.no_bias else prod(outs[0]))


register_op(
    "FullyConnected",
    FQuantized=quantized_as("_contrib_quantized_fully_connected", is_product=True, requantized=True),
    aliases=("_npx_fully_connected", "_sparse_FullyConnected"),
    params=FullyConnectedParams,
    inputs=("data", "weight", "bias"),
    inputs_used=lambda p: ("data", "weight") if p.no_bias else ("data", "weight", "bias"),
    infer_shape=fully_connected_shapes,
    gradient=_fully_connected_gradient,
    flops=fully_connected_flops,
    precision="half",
    samples=rows,
    FScaled=_scaled_fully_connected,
    FScaledData=_fully_connected_of_scaled,
    drawing="dense",
    recompute="if forced",
    doc="Y = X Wᵀ + b: a dense layer.",
)
