"""Convolution with what follows it, in one pass over the result, as a library of the platform computes it.

FuseConvolution makes it of `_channels_last_convolution` and of sums and activations; TransformWeights lays its weight
in blocks of filters, as the library wants it (`symjax_nnvm/geometry.py` says how). In files there are none.
"""

from __future__ import annotations

from math import prod
from typing import Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.geometry import Blocks, Epilogue
from symjax_nnvm.ir.node import Node, NodeEntry, altered, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.named_dims import of_rank
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.ops.nn.channels_last import ChannelsLastParams, channels_last_shapes

# -- the weight in blocks --------------------------------------------------------------------------------------------


class BlockedWeightParams(Params):
    block: int = param(ge=1, doc="filters in a block")
    num_group: int = param(1, ge=1, doc="number of groups")


def blocks_of(weight: tuple[int, ...], num_group: int, block: int) -> Blocks:
    """How a weight (*kernel, c / groups, f) lies."""
    *kernel, share, filters = weight
    return Blocks(block, tuple(kernel), share * num_group, filters, num_group)


def _weight_shapes(p: BlockedWeightParams, ins: Shapes, outs: Shapes):
    """weight (*kernel, c / groups, f) → (numbers of all blocks,)."""
    out = of_rank(outs[0], 1, "The output should be 1D: all blocks, one after the other", param="block")
    weight = tuple(size for size in ins[0] or () if size is not None)
    if not weight or len(weight) != len(ins[0] or ()):
        return ins, [out]
    if not 3 <= len(weight) <= 5:
        raise InferenceError(
            "No weight of a convolution: the pipeline writes `_blocked_weight`, not users",
            input="weight",
            expected="(…kernel, c / groups, f), of 3 to 5 axes",
            got=format_shape(weight),
            fix="Give the weight to Convolution, whose weight the pipeline lays in blocks where that is faster.",
        )
    return ins, [(blocks_of(weight, p.num_group, p.block).length,)]


register_op(
    "_blocked_weight",
    params=BlockedWeightParams,
    inputs=("weight",),
    infer_shape=_weight_shapes,
    infer_type=float_type,
    flops=0,
    drawing="convolution",
    doc="A weight (…k, c / groups, f) in blocks of filters, flat: (groups, f / block, …k, c / groups, block), zeros "
    "for filters that are not there; where each channel is a group of one filter (…k, f).",
)

ACT_TYPES = "what is done with the sum: max(x, 0), min(max(x, 0), 6), or x Φ(x)"

# -- the convolution -------------------------------------------------------------------------------------------------


class FusedConvolutionParams(ChannelsLastParams):
    with_addend: bool = param(False, doc="the last input is added to the result")
    act_type: Literal["", "relu", "relu6", "gelu"] = param("", doc=ACT_TYPES)
    block: int = param(0, ge=0, doc="filters in a block of the weight; 0: the weight is (…k, c / groups, f)")
    channels: int = param(0, ge=0, doc="channels of data, where the weight lies in blocks")

    def check(self) -> str | None:
        problem = super().check()
        if problem or bool(self.block) == bool(self.channels):
            return problem
        return f"Parameters block={self.block} and channels={self.channels}: expected both, or none"

    @property
    def epilogue(self) -> Epilogue:
        """What follows the products."""
        return Epilogue(not self.no_bias, self.with_addend, self.act_type)

    @property
    def blocks(self) -> Blocks:
        """How the weight lies."""
        return blocks_of((*self.kernel, self.channels // self.num_group, self.num_filter), self.num_group, self.block)


def _names(p: FusedConvolutionParams) -> tuple[str, ...]:
    return ("data", "weight", *["bias"] * (not p.no_bias), *["addend"] * p.with_addend)


def _shapes(p: FusedConvolutionParams, ins: Shapes, outs: Shapes):
    """data (n, …d, c), weight (…k, c / groups, f) or (numbers of all blocks,), bias (f,), addend (n, …, f) → it."""
    data, weight, *rest = ins
    whole = (*p.kernel, p.channels // p.num_group, p.num_filter) if p.block else weight
    addend = [rest.pop()] if p.with_addend else []
    (data, whole, *bias), (out,) = channels_last_shapes(p, [data, whole, *rest], [outs[0] or (addend or [None])[0]])
    return [data, (p.blocks.length,) if p.block else whole, *bias, *[out] * p.with_addend], [out]


def _flops(p: FusedConvolutionParams, ins: Sizes, outs: Sizes) -> Flops:
    products = prod(outs[0]) * prod(p.kernel) * (ins[0][-1] // p.num_group)
    return Flops(products, prod(outs[0]) * ((not p.no_bias) + p.with_addend + bool(p.act_type)))


register_op(
    "_fused_convolution",
    params=FusedConvolutionParams,
    inputs=("data", "weight", "bias", "addend"),
    inputs_used=_names,
    infer_shape=_shapes,
    infer_type=float_type,
    flops=_flops,
    recompute="if forced",
    drawing="convolution",
    doc="Convolution of data (n, …d, c) with a weight (…k, c / groups, f), or with what `_blocked_weight` makes of it, "
    "plus a bias for each filter, plus an array of the result's shape, activated: (n, …, f).",
)


# -- one into the other ----------------------------------------------------------------------------------------------


def epilogue_of(node: Node) -> Epilogue:
    """What follows the products of a convolution with channels last, fused or not."""
    p = node.attrs.parsed
    return p.epilogue if isinstance(p, FusedConvolutionParams) else Epilogue(bias=not p.no_bias)


def followed(
    node: Node, fused: str, done: Epilogue, last: Node, addend: NodeEntry | None, act_type: str
) -> Node | None:
    """A node that does what follows it, as the operator `fused`: a sum once, an activation at the end."""
    if done.act_type or (addend is not None and done.addend):
        return None
    attrs = altered(node.attrs, fused)
    attrs = altered(attrs, act_type=act_type) if addend is None else altered(attrs, with_addend=True)
    attrs.name = last.name
    return Node(attrs, [*node.inputs, *([] if addend is None else [addend])])


def _fuse(node: Node, last: Node, addend: NodeEntry | None, act_type: str) -> Node | None:
    """FFuse."""
    return followed(node, "_fused_convolution", epilogue_of(node), last, addend, act_type)


for _name in ("_channels_last_convolution", "_fused_convolution"):
    Op.get(_name).set_attr("FFuse", _fuse)


def blocked(node: Node, block: int, channels: int) -> NodeEntry:
    """A convolution with channels last, fused or not, with its weight in blocks."""
    data, weight, *rest = node.inputs
    groups = node.attrs.parsed.num_group
    laid = apply("_blocked_weight", weight, name=f"{node.name}_blocks{block}", block=block, num_group=groups)
    attrs = altered(node.attrs, "_fused_convolution", block=block, channels=channels)
    return NodeEntry(Node(attrs, [data, laid, *rest]))


def taken_apart(node: Node, convolution: NodeEntry) -> NodeEntry:
    """What follows a fused convolution, after another that computes its products and adds its bias."""
    epilogue, out = epilogue_of(node), convolution
    if epilogue.addend:
        out = apply("elemwise_add", out, node.inputs[-1], name=f"{node.name}_sum")
    if epilogue.act_type == "relu6":
        return apply("clip", out, name=node.name, a_min=0.0, a_max=6.0)
    if epilogue.act_type == "gelu":
        return apply("LeakyReLU", out, name=node.name, act_type="gelu")
    return apply("relu", out, name=node.name) if epilogue.act_type else out
