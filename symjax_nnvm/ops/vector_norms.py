"""Normalisation by sums of squares, L2Normalization and LRN, and the two moments of an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from symjax_nnvm.errors import InferenceError, explain
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Axes, param
from symjax_nnvm.ir.register import Shapes, float_type, register_op, same_shape
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.ops.reduction import ReduceParams, reduced_shape

Entries = list[NodeEntry]

# -- L2Normalization -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class L2NormalizationParams:
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
        raise InferenceError(explain(problem, param="mode", expected="data (n, c, …)", got=format_shape(data)))
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
    params=L2NormalizationParams,
    inputs=("data",),
    outputs=("output", "norm"),
    visible_outputs=1,
    infer_shape=_l2_shapes,
    infer_type=float_type,
    gradient=_l2_gradient,
    doc="Data divided by Euclidean norms, √(sum of squares + eps).",
)

# -- LRN -------------------------------------------------------------------------------------------------------------

FAST_BETA = 0.75
"""The usual exponent, whose power is two square roots: on a CPU many times faster than the general power."""


@dataclass(frozen=True, kw_only=True)
class WindowParams:
    nsize: int = param(ge=1, doc="number of neighbouring channels, itself included, in each sum; odd")

    def check(self) -> str | None:
        if self.nsize % 2 == 0:
            return f"Parameter nsize={self.nsize}: LRN only supports odd values for local_size"
        return None


@dataclass(frozen=True, kw_only=True)
class LRNParams(WindowParams):
    positional: ClassVar = ("alpha", "beta", "knorm", "nsize")
    alpha: float = param(9.99999975e-05, doc="factor of the mean square")
    beta: float = param(0.75, doc="exponent")
    knorm: float = param(2.0, doc="summand")


def _channels(p: WindowParams, ins: Shapes, outs: Shapes):
    """data (n, c, …) → (n, c, …), of all outputs."""
    inputs, outputs = same_shape(p, ins, outs)
    data = next(iter(inputs))
    if data is not None and len(data) < 2:
        raise InferenceError(explain("No axis of channels", expected="data (n, c, …)", got=format_shape(data)))
    return inputs, outputs


def _lrn_gradient(node: Node, ograds: Entries):
    """Y = X N^-β, N = k + α/n W(X²), W the sum over neighbours, which is symmetric:

    dX = dY N^-β + 2 α/n X W(dN - β dY Y / N).
    """
    p: LRNParams = node.attrs.parsed
    x, y, norm = node.inputs[0], NodeEntry(node, 0, 0), NodeEntry(node, 1, 0)
    dy, dnorm = ograds
    slope = apply("_mul_scalar", apply("elemwise_div", apply("elemwise_mul", dy, y), norm), scalar=p.beta)
    sums = apply("_backward_LRN_window", apply("elemwise_sub", dnorm, slope), nsize=p.nsize)
    through_norm = apply("_mul_scalar", apply("elemwise_mul", x, sums), scalar=2 * p.alpha / p.nsize)
    return [apply("elemwise_add", apply("elemwise_mul", dy, _factor(p, norm)), through_norm)]


def _factor(p: LRNParams, norm: NodeEntry) -> NodeEntry:
    """N^-β."""
    if p.beta != FAST_BETA:
        return apply("_power_scalar", norm, scalar=-p.beta)
    root = apply("rsqrt", norm)
    return apply("elemwise_mul", root, apply("sqrt", root))


register_op(
    "LRN",
    params=LRNParams,
    inputs=("data",),
    outputs=("output", "tmp_norm"),
    visible_outputs=1,
    infer_shape=_channels,
    infer_type=float_type,
    gradient=_lrn_gradient,
    doc="Data over (knorm + alpha · mean square of nsize neighbouring channels)^beta, where channels past the ends are "
    "0 (Krizhevsky et al., 2012). Takes data (n, c, …) of every rank and floating-point dtype; MXNet takes float32 "
    "images.",
)
register_op(
    "_backward_LRN_window",
    params=WindowParams,
    infer_shape=_channels,
    infer_type=float_type,
    gradient=lambda node, ograds: [apply("_backward_LRN_window", ograds[0], nsize=node.attrs.parsed.nsize)],
    doc="The sum of nsize neighbouring channels around each; its own transpose.",
)

# -- moments ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MomentsParams:
    axes: Axes | None = param(None, doc="axes to reduce over; must be given")
    keepdims: bool = param(False, doc="keep the reduced axes, with length 1")

    def check(self) -> str | None:
        if not self.axes:
            return (
                "Empty axes is not supported, if you would like to do global moments, please pass all axes to axes "
                "argument"
            )
        return None

    @property
    def reduction(self) -> ReduceParams:
        """The reduction that each moment is a mean of."""
        return ReduceParams(axis=self.axes, keepdims=self.keepdims)


def _moments_shapes(p: MomentsParams, ins: Shapes, outs: Shapes):
    """data (…, d, …) → mean (…, …), variance (…, …)."""
    data = ins[0]
    if data is None:
        _, outputs = same_shape(p, [], outs)
        return ins, outputs
    return ins, [reduced_shape(p.reduction, data)] * 2


def _moments_gradient(node: Node, ograds: Entries):
    """dX = (dM + 2 (X - M) dV) / n, both repeated over the reduced axes."""
    p: MomentsParams = node.attrs.parsed
    data, settings = node.inputs[0], vars(p.reduction)
    dmean, dvariance = (apply("_backward_mean", ograd, data, **settings) for ograd in ograds)
    mean = apply("_backward_sum", NodeEntry(node, 0, 0), data, **settings)
    difference = apply("_mul_scalar", apply("elemwise_sub", data, mean), scalar=2.0)
    return [apply("elemwise_add", dmean, apply("elemwise_mul", difference, dvariance))]


register_op(
    "moments",
    params=MomentsParams,
    inputs=("data",),
    num_outputs=2,
    infer_shape=_moments_shapes,
    gradient=_moments_gradient,
    doc="Mean and biased variance over axes; of integers both are truncated towards 0.",
)
