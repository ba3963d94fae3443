"""Convolution by Winograd's algorithm, in two operators: the first depends on the weight alone, perhaps a constant.

TransformWeights makes both of `_channels_last_convolution`.
`lowering/convolutions/winograd.py` describes the numbers.
"""

from __future__ import annotations

from math import prod
from typing import Literal

from jax import Array

from lowering.convolutions import winograd
from lowering.convolutions.applicable import geometry_of, winograd_tile
from lowering.convolutions.directions import TRANSFORMED
from lowering.core.rules import ByPart, lowers
from symjax_nnvm.ir.node import Node, NodeEntry, altered, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.named_dims import of_rank
from symjax_nnvm.ops.nn.channels_last import ChannelsLastParams, channels_last_shapes

WINDOW = (3, 3)


class WinogradWeightParams(Params):
    tile: int = param(doc="outputs that are made at once, along each axis: 2 or 4")

    def check(self) -> str | None:
        return None if self.tile in (2, 4) else f"Parameter tile={self.tile}: expected 2 or 4"


def _weight_shapes(p: WinogradWeightParams, ins: Shapes, outs: Shapes):
    """Map weight (3, 3, c, f) → ((tile + 2)², c, f)."""
    weight = of_rank(ins[0], 4, "Input weight should be 4D: (3, 3, channels, filters)", param="tile")
    factors = of_rank(outs[0], 3, "The output should be 3D: (factors, channels, filters)", param="tile")
    ends = [a if b is None else b for a, b in zip(weight[2:], factors[1:], strict=True)]
    return [(*WINDOW, *ends)], [((p.tile + 2) ** 2, *ends)]


def _weight_flops(p: WinogradWeightParams, ins: Sizes, outs: Sizes) -> Flops:
    """Count the operations: columns, and then rows, of three numbers become tile + 2."""
    *_, channels, filters = outs[0]
    return Flops(3 * (p.tile + 2) * (3 + p.tile + 2) * channels * filters)


register_op(
    "_winograd_weight",
    params=WinogradWeightParams,
    inputs=("weight",),
    infer_shape=_weight_shapes,
    infer_type=float_type,
    flops=_weight_flops,
    drawing="convolution",
    TMadeBy="TransformWeights",
    doc="What Winograd's algorithm multiplies with: weight (3, 3, c, f) → ((tile + 2)², c, f), for tiles of tile².",
)


@lowers("_winograd_weight")
def _weight(p: WinogradWeightParams, weight: Array) -> Array:
    return winograd.winograd_weight(weight, p.tile)


class WinogradParams(ChannelsLastParams):
    algorithm: Literal["winograd2", "winograd4"] = param(doc="its name")

    def check(self) -> str | None:
        problem = super().check()
        if problem or (self.kernel == WINDOW and self.num_group == 1 and not {*self.stride, *self.dilate} - {1}):
            return problem
        return "Expected kernel=(3, 3), stride and dilate of 1, and num_group=1: only these can be computed in tiles"

    @property
    def tile(self) -> int:
        """Outputs that are made at once, along each axis."""
        return winograd_tile(self.algorithm) or 0


def _shapes(p: WinogradParams, ins: Shapes, outs: Shapes):
    """Map data (n, h, w, c), weight ((tile + 2)², c, f), bias (f,) → (n, h', w', f)."""
    weight = of_rank(ins[1], 3, "Input weight should be 3D: (factors, channels, filters)", param="algorithm")
    (data, whole, *bias), results = channels_last_shapes(p, [ins[0], (*WINDOW, *weight[1:]), *ins[2:]], outs)
    return [data, ((p.tile + 2) ** 2, *whole[2:]), *bias], results


def _numbers(p: WinogradParams, outs: Sizes) -> int:
    """Return what there is of each channel: (tile + 2)² numbers for each tile of outputs."""
    batch, *size, _ = outs[0]
    return (p.tile + 2) ** 2 * batch * prod(-(-n // p.tile) for n in size)


def _flops(p: WinogradParams, ins: Sizes, outs: Sizes) -> Flops:
    """The products; sums before and after are as few as there are numbers, not as products."""
    return Flops(_numbers(p, outs) * ins[0][-1] * p.num_filter, 0 if p.no_bias else prod(outs[0]))


def _workspace(p: WinogradParams, ins: Sizes, outs: Sizes) -> int:
    """Return the tiles before and after the products."""
    return _numbers(p, outs) * (ins[0][-1] + p.num_filter)


register_op(
    "_winograd_convolution",
    params=WinogradParams,
    inputs=("data", "weight", "bias"),
    inputs_used=lambda p: ("data", "weight") if p.no_bias else ("data", "weight", "bias"),
    infer_shape=_shapes,
    infer_type=float_type,
    flops=_flops,
    workspace=_workspace,
    recompute="if forced",
    drawing="convolution",
    TMadeBy="TransformWeights",
    doc="Convolution of data (n, h, w, c) with what `_winograd_weight` makes of a weight, plus a bias: (n, h, w, f).",
)


@lowers("_winograd_convolution", by_part=ByPart((0,)))
def _convolution(p: WinogradParams, data: Array, weight: Array, bias: Array | None = None) -> Array:
    out = TRANSFORMED[p.algorithm](data, weight, geometry_of(p, data.shape, data.dtype.name))
    return out if bias is None else out + bias


def by_winograd(node: Node, algorithm: str, tile: int) -> NodeEntry:
    """A `_channels_last_convolution` by an algorithm of Winograd's, its weight transformed apart."""
    data, weight, *bias = node.inputs
    factors = apply("_winograd_weight", weight, name=f"{node.name}_winograd{tile}", tile=tile)
    return NodeEntry(Node(altered(node.attrs, "_winograd_convolution", algorithm=algorithm), [data, factors, *bias]))
