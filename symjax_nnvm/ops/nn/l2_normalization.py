"""L2Normalization: data over the root of its sum of squares."""

from __future__ import annotations

from typing import Any, Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op, same_shape
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.ops.reduce.reduction import ReduceParams, reduced_shape


class L2NormalizationParams(Params):
    eps: float = param(1.00000001e-10, doc="added to the sum of squares")
    mode: Literal["channel", "instance", "spatial"] = param(
        "instance",
        doc="what one norm is of. instance: each sample; channel: the channels, axis 1, at each place; spatial: each "
        "channel of each sample",
    )


def _norm_axes(p: L2NormalizationParams) -> dict[str, Any]:
    """The axes of one norm, as parameters of a reduction."""
    match p.mode:
        case "instance":
            return {"axis": (0,), "exclude": True}
        case "channel":
            return {"axis": (1,), "exclude": False}
        case "spatial":
            return {"axis": (0, 1), "exclude": True}


def norm_reduction(p: L2NormalizationParams) -> ReduceParams:
    """The reduction whose sums of squares are the norms' squares; the reduced axes stay."""
    return ReduceParams(**_norm_axes(p), keepdims=True)


def _l2_shapes(p: L2NormalizationParams, ins: Shapes, outs: Shapes):
    """data (n, c, …) → (n, c, …), norm (n, 1, 1…), (n, 1, …) or (n, c, 1…)."""
    (data,), (out,) = same_shape(p, ins, outs[:1])
    if data is None:
        return [data], [out, outs[1]]
    if p.mode != "instance" and len(data) < 3:
        problem = f"At least 3 dimensions required in {p.mode} mode"
        raise InferenceError(problem, param="mode", expected="data (n, c, …)", got=format_shape(data))
    return [data], [out, reduced_shape(norm_reduction(p), data)]


def _l2_gradient(node: Node, ograds: Entries):
    """Y = X / N, N = √(Σ X² + ε): dX = (dY - Y Σ dY Y) / N + dN Y."""
    y, norm = NodeEntry(node, 0, 0), NodeEntry(node, 1, 0)
    dy, dnorm = ograds
    total = apply("sum", apply("elemwise_mul", dy, y), **_norm_axes(node.attrs.parsed), keepdims=True)
    through_norm = apply("broadcast_sub", dnorm, apply("elemwise_div", total, norm))
    return [apply("elemwise_add", apply("broadcast_div", dy, norm), apply("broadcast_mul", y, through_norm))]


register_op(
    "L2Normalization",
    samples="each",
    params=L2NormalizationParams,
    inputs=("data",),
    outputs=("output", "norm"),
    visible_outputs=1,
    infer_shape=_l2_shapes,
    infer_type=float_type,
    gradient=_l2_gradient,
    flops=3,
    drawing="normalization",
    doc="Data divided by Euclidean norms, √(sum of squares + eps).",
)
