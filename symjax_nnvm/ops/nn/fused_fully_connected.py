"""FullyConnected with what follows it, in one pass over the result, as a library of the platform computes it.

A library's convolution with a window of one place is a product of rows with a weight; it lays the weight in blocks as
any other (`fused_convolution.py`). FuseConvolution makes this operator of FullyConnected and of sums and activations,
TransformWeights gives it its weight in blocks. In files there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

from symjax_nnvm.algorithms import SMALL
from symjax_nnvm.geometry import LIBRARY, XLA, Blocks, Epilogue, Geometry, Library, Machine
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, altered, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.types import DType
from symjax_nnvm.ops.nn.fully_connected import FullyConnectedParams, fully_connected_shapes
from symjax_nnvm.ops.nn.fused_convolution import ACT_TYPES, followed

FEW_ROWS = 16
"""Below, reading the weight is what takes time, and nobody does it faster: VGG-16's three products of one image take
10.5 ms in XLA, and 13.8 in oneDNN on two cores."""

MAX_WEIGHT = 1 << 24
"""Numbers: laying a larger one in blocks, and trying the product, takes seconds (those of 4096 × 25088, 4)."""


class FusedFullyConnectedParams(FullyConnectedParams):
    with_addend: bool = param(False, doc="the last input is added to the result")
    act_type: Literal["", "relu", "relu6", "gelu"] = param("", doc=ACT_TYPES)
    block: int = param(0, ge=0, doc="rows in a block of the weight; 0: the weight is (num_hidden, d)")
    depth: int = param(0, ge=0, doc="d, where the weight lies in blocks")

    def check(self) -> str | None:
        if bool(self.block) == bool(self.depth):
            return None
        return f"Parameters block={self.block} and depth={self.depth}: expected both, or none"

    @property
    def epilogue(self) -> Epilogue:
        """What follows the products."""
        return Epilogue(not self.no_bias, self.with_addend, self.act_type)

    @property
    def blocks(self) -> Blocks:
        """How the weight lies."""
        return Blocks(self.block, (1,), self.depth, self.num_hidden, 1)


def product_geometry(p: FullyConnectedParams, shape: tuple[int, ...], dtype: DType) -> Geometry:
    """The convolution of one place that a product of data of this shape is: its rows stand side by side."""
    depth = prod(shape[1:]) if p.flatten else shape[-1]
    count = shape[0] if p.flatten else prod(shape[:-1])
    return Geometry(1, (count,), depth, p.num_hidden, (1,), (1,), (1,), (0,), dtype=dtype)


def _names(p: FusedFullyConnectedParams) -> tuple[str, ...]:
    return ("data", "weight", *["bias"] * (not p.no_bias), *["addend"] * p.with_addend)


def _shapes(p: FusedFullyConnectedParams, ins: Shapes, outs: Shapes):
    """data (n, …), weight (h, d) or (numbers of all blocks,), bias (h,), addend (n, h) → it; see FullyConnected."""
    data, weight, *rest = ins
    whole = (p.num_hidden, p.depth) if p.block else weight
    addend = [rest.pop()] if p.with_addend else []
    (data, whole, *bias), (out,) = fully_connected_shapes(p, [data, whole, *rest], [outs[0] or (addend or [None])[0]])
    return [data, (p.blocks.length,) if p.block else whole, *bias, *[out] * p.with_addend], [out]


def _flops(p: FusedFullyConnectedParams, ins: Sizes, outs: Sizes) -> Flops:
    depth = p.depth or ins[1][1]
    return Flops(prod(outs[0]) * depth, prod(outs[0]) * ((not p.no_bias) + p.with_addend + bool(p.act_type)))


register_op(
    "_fused_fully_connected",
    params=FusedFullyConnectedParams,
    inputs=("data", "weight", "bias", "addend"),
    inputs_used=_names,
    infer_shape=_shapes,
    infer_type=float_type,
    flops=_flops,
    recompute="if forced",
    drawing="dense",
    doc="FullyConnected with a weight (h, d), or with what `_blocked_weight` makes of it as (1, d, h), plus an array "
    "of the result's shape, activated.",
)


def _epilogue_of(node: Node) -> Epilogue:
    p = node.attrs.parsed
    return p.epilogue if isinstance(p, FusedFullyConnectedParams) else Epilogue(bias=not p.no_bias)


def _fuse(node: Node, last: Node, addend: NodeEntry | None, act_type: str) -> Node | None:
    """FFuse."""
    return followed(node, "_fused_fully_connected", _epilogue_of(node), last, addend, act_type)


def _transform(
    node: Node, shape: tuple[int, ...], dtype: DType, platform: str, library: Library | None
) -> NodeEntry | None:
    """FTransformWeight: by the library, but where that is no faster, or the weight lies in blocks already."""
    if isinstance(node.attrs.parsed, FusedFullyConnectedParams) and node.attrs.parsed.block:
        return None
    g = product_geometry(node.attrs.parsed, shape, dtype)
    worth = g.macs > SMALL and g.size[0] >= FEW_ROWS and g.channels * g.filters <= MAX_WEIGHT
    block = library.block(g, _epilogue_of(node)) if library is not None and worth else None
    if block is None:
        return None
    data, weight, *rest = node.inputs
    columns = apply("expand_dims", apply("transpose", weight, axes=(1, 0)), axis=0)
    laid = apply("_blocked_weight", columns, name=f"{node.name}_blocks{block}", block=block)
    attrs = altered(node.attrs, "_fused_fully_connected", block=block, depth=g.channels)
    return NodeEntry(Node(attrs, [data, laid, *rest]))


def _algorithm(attrs: NodeAttrs, shapes: Sequence[tuple[int, ...]], dtype: DType, machine: Machine) -> str:
    """FAlgorithm."""
    p: FusedFullyConnectedParams = attrs.parsed
    return LIBRARY if machine.takes(p.block, product_geometry(p, shapes[0], dtype), p.epilogue) else XLA


Op.get("_fused_fully_connected").set_attr("FAlgorithm", _algorithm)

for _name in ("FullyConnected", "_fused_fully_connected"):
    Op.get(_name).set_attr("FFuse", _fuse)
    Op.get(_name).set_attr("FTransformWeight", _transform)
