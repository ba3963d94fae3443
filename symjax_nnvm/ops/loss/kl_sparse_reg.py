"""IdentityAttachKLSparseReg: a penalty on activations that are not sparse, hung onto the identity."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known, replaced
from symjax_nnvm.ir.types import format_shape


class KLSparseRegParams(Params):
    sparseness_target: float = param(0.100000001, ge=0, le=1, doc="the mean activation aimed at, ρ")
    penalty: float = param(0.00100000005, doc="factor of the penalty's gradient")
    momentum: float = param(0.899999976, ge=0, le=1, doc="share of the old value in the moving average")


def _shapes(p: KLSparseRegParams, ins: Shapes, outs: Shapes):
    """data (n, c, …), moving_avg (c,) → (n, c, …), average (c,)."""
    (data,), (out,) = same_shape(p, ins[:1], outs[:1])
    size = known(*(shape[0] for shape in (ins[1], outs[1]) if shape))
    if data is not None:
        if len(data) < 2:
            raise InferenceError("No axis of units", expected="data (n, c, …)", got=format_shape(data))
        size = known(data[1], size)
        data = out = replaced(data, 1, size)
    return [data, (size,)], [out, (size,)]


def _types(p: KLSparseRegParams, ins: Types, outs: Types):
    """data and output of one floating-point dtype, the averages of the same, float32 at least."""
    (data,), (out,) = float_type(p, ins[:1], outs[:1])
    average = "float32" if data in ("float16", "bfloat16") else data
    return [data, average], [out, average]


def _gradient(node: Node, ograds: Entries):
    """dX = dY + penalty (-ρ / ρ̂ + (1 - ρ) / (1 - ρ̂)), with ρ̂ the moving average, this batch included.

    The second term is the derivative of KL(ρ ‖ ρ̂) by ρ̂, not by X; in gradients of gradients it is constant.
    """
    p: KLSparseRegParams = node.attrs.parsed
    # Blocked, or a gradient that reaches the average would add the penalty to gradients of gradients.
    average = apply("BlockGrad", NodeEntry(node, 1, 0))
    active = apply("_rdiv_scalar", average, scalar=-p.penalty * p.sparseness_target)
    inactive = apply(
        "_rdiv_scalar", apply("_rminus_scalar", average, scalar=1.0), scalar=p.penalty * (1 - p.sparseness_target)
    )
    dy = apply("_cast_like", ograds[0], average)
    penalty = apply("_channels_like", apply("elemwise_add", active, inactive), dy, axis=1)
    return [apply("_cast_like", apply("broadcast_add", dy, penalty), node.inputs[0]), None]


def _initial_average(attrs: NodeAttrs, variable: Node, i: int) -> None:
    """A moving average starts as 0 by default."""
    if i == 1:
        variable.attrs.dict.setdefault("__init__", '["zero", {}]')


register_op(
    "IdentityAttachKLSparseReg",
    params=KLSparseRegParams,
    inputs=("data", "moving_avg"),
    outputs=("output", "average"),
    visible_outputs=1,
    mutates=(1,),
    infer_shape=_shapes,
    infer_type=_types,
    gradient=_gradient,
    FSetInputVarAttrOnCompose=_initial_average,
    FNumFileOutputs=lambda attrs: 1,
    inplace=((0, 0),),
    flops="only the statistics in training",
    not_derivative="the gradient is that of the identity plus the penalty's",
    doc="The identity, whose gradient adds a penalty that draws the mean of each unit's activations, between 0 and 1, "
    "to a target (sparse autoencoders). The moving average follows in training as BatchNorm's do. Takes data (n, c, …) "
    "of every rank from 2; MXNet trains on matrices.",
)
