"""Dropout: a random mask over the data in training."""

from __future__ import annotations

from typing import Literal, TypeVar

from symjax_nnvm.ir.attributes import When
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Axes, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.axes import normal_axis
from symjax_nnvm.ir.rules.costs import MOVES
from symjax_nnvm.ir.rules.layout_rules import AGNOSTIC

Dim = TypeVar("Dim", int, int | None)


class DropoutParams(Params):
    p: float = param(0.5, ge=0, le=1, doc="the share of elements that is dropped")
    mode: Literal["always", "training"] = param("training", doc="when elements are dropped")
    axes: Axes = param((), doc="axes along which whole slices are dropped: the mask has length 1 there")
    cudnn_off: bool | None = param(False, doc="accepted and without effect")


def mask_shape(p: DropoutParams, shape: tuple[Dim, ...]) -> tuple[Dim | int, ...]:
    """The shape of the mask: that of data, with 1 for the axes that share it."""
    shared = {normal_axis(axis, len(shape), "axes") for axis in p.axes}
    return tuple(1 if i in shared else dim for i, dim in enumerate(shape))


def _dropout_shapes(p: DropoutParams, ins: Shapes, outs: Shapes):
    """data (...) → output (...), mask (...) with 1 for the axes that share it."""
    (data,), (out,) = same_shape(p, ins, outs[:1])
    return [data], [out, outs[1] if data is None else mask_shape(p, data)]


def _dropout_gradient(node: Node, ograds: Entries):
    """dX = dY times the very mask of the forward pass."""
    p: DropoutParams = node.attrs.parsed
    return [apply("broadcast_mul" if p.axes else "elemwise_mul", ograds[0], NodeEntry(node, 1, 0))]


def _draws(p: DropoutParams) -> When:
    if p.p == 0:
        return None
    return "always" if p.mode == "always" else "training"


def _at_inference(node: Node) -> NodeEntry | None:
    return None if _draws(node.attrs.parsed) == "always" else node.inputs[0]


register_op(
    "Dropout",
    aliases=("_npx_dropout",),
    params=DropoutParams,
    inputs=("data",),
    outputs=("output", "mask"),
    visible_outputs=1,
    infer_shape=_dropout_shapes,
    infer_type=float_type,
    gradient=_dropout_gradient,
    out_grads_read=1,
    inplace=((0, 0),),
    FInference=_at_inference,
    **MOVES,
    draws=_draws,
    deviation=Deviation("p=1 gives zeros; MXNet's result and gradient are NaN", "training", lambda p: p.p == 1),
    layout=lambda p, order: AGNOSTIC(p, order) if p.p == 0 and not p.axes else None,
    drawing="normalization",
    recompute="in blocks",
    doc="In training: each element becomes 0 with probability p, and the rest is divided by 1 - p. Otherwise the data. "
    "The hidden output `mask` holds the factors. p=1 gives zeros, where MXNet divides 0 by 0.",
)
