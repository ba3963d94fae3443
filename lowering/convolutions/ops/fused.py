"""Convolution and FullyConnected with what follows them, in one pass over the result, as a library computes them.

FuseConvolution makes these operators of `_channels_last_convolution` and FullyConnected, of sums and of activations.
TransformWeights stores the weight in a layout (`lowering/convolutions/layouts.py`). A dense layer is computed as a
convolution with a window of one place.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal

import jax.numpy as jnp
from jax import Array, lax

from lowering.convolutions import directions
from lowering.convolutions.applicable import LIBRARY, XLA, geometry_of
from lowering.convolutions.backends import onednn
from lowering.convolutions.geometry import Epilogue
from lowering.convolutions.layouts import Blocks, is_layout
from lowering.core.rules import lowers
from lowering.ops.nn.activation import gelu
from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, altered, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.named_dims import of_rank
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.ops.nn.channels_last import ChannelsLastParams, channels_last_shapes
from symjax_nnvm.ops.nn.fully_connected import FullyConnectedParams, fully_connected_shapes

# -- the weight in a layout ------------------------------------------------------------------------------------------


def _layout_problem(layout: str) -> str | None:
    return None if is_layout(layout) else f"Parameter layout={layout!r}: expected such as 'b16c64'"


class BlockedWeightParams(Params):
    layout: str = param(doc="b16c64: blocks of 16 filters, of a convolution of 64 channels")
    num_group: int = param(1, ge=1, doc="number of groups")

    def check(self) -> str | None:
        return _layout_problem(self.layout)

    def blocks(self, weight: tuple[int, ...]) -> Blocks:
        """The layout of a weight (…k, c / groups, f)."""
        return Blocks.read(self.layout, weight[:-2], weight[-1], self.num_group)


def _weight_shapes(p: BlockedWeightParams, ins: Shapes, outs: Shapes):
    """Map weight (…k, c / groups, f) → (numbers of all blocks,)."""
    out = of_rank(outs[0], 1, "The output should be 1D: all blocks, one after the other", param="layout")
    weight = tuple(size for size in ins[0] or () if size is not None)
    if not weight or len(weight) != len(ins[0] or ()):
        return ins, [out]
    if not 3 <= len(weight) <= 5 or weight[-2] * p.num_group != p.blocks(weight).channels:
        raise InferenceError(
            "`_blocked_weight` takes only weights of convolutions; the pipeline inserts it, not users",
            input="weight",
            expected=f"(…kernel, c / groups, f), of 3 to 5 axes, with the channels of layout={p.layout}",
            got=format_shape(weight),
            fix="Pass the weight to Convolution: the pipeline uses blocks where they are faster.",
        )
    return ins, [(p.blocks(weight).length,)]


register_op(
    "_blocked_weight",
    params=BlockedWeightParams,
    inputs=("weight",),
    infer_shape=_weight_shapes,
    infer_type=float_type,
    flops=0,
    drawing="convolution",
    TMadeBy="TransformWeights",
    doc="A weight (…k, c / groups, f) in blocks of filters, flat: (groups, f / block, …k, c / groups, block), zeros "
    "for filters that are not there; where each channel is a group of one filter (…k, f).",
)


@lowers("_blocked_weight")
def _weight(p: BlockedWeightParams, weight: Array) -> Array:
    return p.blocks(weight.shape).lay(weight, jnp).ravel()


# -- the two operators -----------------------------------------------------------------------------------------------


class Fused(Params):
    """The parameters of both operators, after those of the product."""

    with_addend: bool = param(False, doc="the last input is added to the result")
    act_type: Literal["", "relu", "relu6", "gelu"] = param(
        "", doc="what is done with the sum: max(x, 0), min(max(x, 0), 6), or x Φ(x)"
    )
    layout: str = param("", doc="the weight's, which `_blocked_weight` made; '': it is the operator's own")


class FusedConvolutionParams(Fused, ChannelsLastParams):
    def check(self) -> str | None:
        return super().check() or (_layout_problem(self.layout) if self.layout else None)

    @property
    def blocks(self) -> Blocks:
        """The layout of the weight."""
        return Blocks.read(self.layout, self.kernel, self.num_filter, self.num_group)


class FusedFullyConnectedParams(Fused, FullyConnectedParams):
    def check(self) -> str | None:
        return _layout_problem(self.layout) if self.layout else None

    @property
    def blocks(self) -> Blocks:
        """The layout of the weight as (1, d, h)."""
        return Blocks.read(self.layout, (1,), self.num_hidden, 1)


AnyParams = FusedConvolutionParams | FusedFullyConnectedParams


def epilogue_of(p: Any) -> Epilogue:
    """What follows the products of an operator, fused or not, with these parameters."""
    return Epilogue(not p.no_bias, p.with_addend, p.act_type) if isinstance(p, AnyParams) else Epilogue(not p.no_bias)


def _names(p: AnyParams) -> tuple[str, ...]:
    return ("data", "weight", *["bias"] * (not p.no_bias), *["addend"] * p.with_addend)


def _plain_shapes(p: AnyParams, ins: Shapes, outs: Shapes):
    if isinstance(p, FusedFullyConnectedParams):
        return fully_connected_shapes(p, ins, outs)
    return channels_last_shapes(p, ins, outs)


def _whole_weight(p: AnyParams) -> Shape:
    """Return the shape of a weight that is stored in a layout, before it was."""
    blocks = p.blocks
    if isinstance(p, FusedFullyConnectedParams):
        return blocks.filters, blocks.channels
    return (*blocks.kernel, blocks.channels // blocks.groups, blocks.filters)


def _shapes(p: AnyParams, ins: Shapes, outs: Shapes):
    """Map data, weight or (numbers of all blocks,), bias (f,), addend like the result → as without what follows."""
    data, weight, *addends = ins
    addend = [addends.pop()] if p.with_addend else []
    plain_ins = [data, _whole_weight(p) if p.layout else weight, *addends]
    (data, whole, *bias), (out,) = _plain_shapes(p, plain_ins, [outs[0] or (addend or [None])[0]])
    return [data, (p.blocks.length,) if p.layout else whole, *bias, *[out] * p.with_addend], [out]


def _flops(p: AnyParams, ins: Sizes, outs: Sizes) -> Flops:
    g = geometry_of(p, ins[0], "float32")
    return Flops(g.macs, prod(outs[0]) * ((not p.no_bias) + p.with_addend + bool(p.act_type)))


for _name, _params, _drawing, _doc in (
    (
        *("_fused_convolution", FusedConvolutionParams, "convolution"),
        "Convolution of data (n, …d, c) with a weight (…k, c / groups, f), or with what `_blocked_weight` makes of it, "
        "plus a bias for each filter, plus an array of the result's shape, activated: (n, …, f).",
    ),
    (
        *("_fused_fully_connected", FusedFullyConnectedParams, "dense"),
        "FullyConnected with a weight (h, d), or with what `_blocked_weight` makes of it as (1, d, h), plus an array "
        "of the result's shape, activated.",
    ),
):
    register_op(
        _name,
        params=_params,
        inputs=("data", "weight", "bias", "addend"),
        inputs_used=_names,
        infer_shape=_shapes,
        infer_type=float_type,
        flops=_flops,
        recompute="if forced",
        drawing=_drawing,
        TMadeBy="FuseConvolution",
        doc=_doc,
    )


@lowers("_fused_convolution", "_fused_fully_connected", needs=("algorithm",))
def _fused(p: AnyParams, data: Array, weight: Array, *addends: Array, algorithm: str) -> Array:
    g = geometry_of(p, data.shape, data.dtype.name)
    if algorithm == LIBRARY and _are_alike(data, weight, *addends):
        operands = [a.reshape(g.batch, *g.out_size, g.filters) if a.ndim > 1 else a for a in addends]
        rows = data.reshape(g.batch, *g.size, g.channels)
        out = onednn.convolve(rows, weight, g, epilogue_of(p), operands)
        return out if isinstance(p, FusedConvolutionParams) else out.reshape(_dense_shape(p, data))
    plain = p.blocks.unlay(weight.reshape(p.blocks.shape)) if p.layout else weight
    if isinstance(p, FusedConvolutionParams):
        out = directions.forward(data, plain, g, XLA if algorithm == LIBRARY else algorithm)
    else:
        rows = data.reshape(*g.size, g.channels)
        out = rows @ plain[0] if p.layout else lax.dot_general(rows, plain, (((1,), (1,)), ((), ())))
        out = out.reshape(_dense_shape(p, data))
    for operand in addends:
        out = out + operand
    if p.act_type == "gelu":
        return gelu(out)
    return jnp.clip(out, 0, 6 if p.act_type == "relu6" else None) if p.act_type else out


def _dense_shape(p: FusedFullyConnectedParams, data: Array) -> tuple[int, ...]:
    return (*(data.shape[:1] if p.flatten else data.shape[:-1]), p.num_hidden)


def _are_alike(*arrays: Array) -> bool:
    """Return whether all arrays have one dtype: of others, which a file may have, oneDNN would end the process."""
    return len({array.dtype for array in arrays}) == 1


# -- one into the other ----------------------------------------------------------------------------------------------


def _name_of(node: Node) -> str:
    """Return the fused operator of a product's node, fused or not."""
    return "_fused_fully_connected" if isinstance(node.attrs.parsed, FullyConnectedParams) else "_fused_convolution"


def _fuse(node: Node, last: Node, addend: NodeEntry | None, act_type: str) -> Node | None:
    """FFuse: fuse an addend or an activation into a product that has none yet; None if it has."""
    done = epilogue_of(node.attrs.parsed)
    if done.act_type or (addend is not None and done.addend):
        return None
    attrs = altered(node.attrs, _name_of(node))
    attrs = altered(attrs, act_type=act_type) if addend is None else altered(attrs, with_addend=True)
    attrs.name = last.name
    return Node(attrs, [*node.inputs, *([] if addend is None else [addend])])


for _name in ("_channels_last_convolution", "_fused_convolution", "FullyConnected", "_fused_fully_connected"):
    Op.get(_name).set_attr("FFuse", _fuse)


def in_layout(node: Node, layout: str) -> NodeEntry:
    """Return a product like the node, fused or not, whose weight is stored in the layout."""
    data, weight, *addends = node.inputs
    p, groups = node.attrs.parsed, 1
    if isinstance(p, FullyConnectedParams):
        weight = apply("expand_dims", apply("transpose", weight, axes=(1, 0)), axis=0)
    else:
        groups = p.num_group
    laid = apply("_blocked_weight", weight, name=f"{node.name}_{layout}", layout=layout, num_group=groups)
    return NodeEntry(Node(altered(node.attrs, _name_of(node), layout=layout), [data, laid, *addends]))


def uses_layout(node: Node) -> bool:
    """Whether a node is a product whose weight is in a library's layout."""
    p = None if node.is_variable else node.attrs.parsed
    return isinstance(p, Fused) and bool(p.layout)


def taken_apart(node: Node, convolution: NodeEntry) -> NodeEntry:
    """What follows a fused convolution, after another that computes its products and adds its bias."""
    epilogue, out = epilogue_of(node.attrs.parsed), convolution
    if epilogue.addend:
        out = apply("elemwise_add", out, node.inputs[-1], name=f"{node.name}_sum")
    if epilogue.act_type == "relu6":
        return apply("clip", out, name=node.name, a_min=0.0, a_max=6.0)
    if epilogue.act_type == "gelu":
        return apply("LeakyReLU", out, name=node.name, act_type="gelu")
    return apply("relu", out, name=node.name) if epilogue.act_type else out
