"""LRN: local response normalisation across channels."""

from __future__ import annotations

from math import prod
from typing import ClassVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.linear import self_adjoint
from symjax_nnvm.ir.types import format_shape

FAST_BETA = 0.75
"""The usual exponent, whose power is two square roots: on a CPU many times faster than the general power."""


class LRNWindowParams(Params):
    nsize: int = param(ge=1, doc="number of neighbouring channels, itself included, in each sum; odd")

    def check(self) -> str | None:
        if self.nsize % 2 == 0:
            return f"Parameter nsize={self.nsize}: LRN only supports odd values for local_size"
        return None


class LRNParams(LRNWindowParams):
    positional: ClassVar = ("alpha", "beta", "knorm", "nsize")
    alpha: float = param(9.99999975e-05, doc="factor of the mean square")
    beta: float = param(0.75, doc="exponent")
    knorm: float = param(2.0, doc="summand")


def _channels(p: LRNWindowParams, ins: Shapes, outs: Shapes):
    """data (n, c, …) → (n, c, …), of all outputs."""
    inputs, outputs = same_shape(p, ins, outs)
    data = next(iter(inputs))
    if data is not None and len(data) < 2:
        raise InferenceError("No axis of channels", expected="data (n, c, …)", got=format_shape(data))
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


def _lrn_flops(p: LRNParams, ins: Sizes, outs: Sizes) -> Flops:
    """Square, sum over the window, scale, shift, power, divide."""
    return Flops(0, prod(outs[0]) * (p.nsize + 4))


register_op(
    "LRN",
    samples="each",
    params=LRNParams,
    inputs=("data",),
    outputs=("output", "tmp_norm"),
    visible_outputs=1,
    infer_shape=_channels,
    infer_type=float_type,
    gradient=_lrn_gradient,
    flops=_lrn_flops,
    drawing="normalization",
    doc="Data over (knorm + alpha · mean square of nsize neighbouring channels)^beta, where channels past the ends are "
    "0 (Krizhevsky et al., 2012). Takes data (n, c, …) of every rank and floating-point dtype; MXNet takes float32 "
    "images.",
)


register_op(
    "_backward_LRN_window",
    params=LRNWindowParams,
    infer_shape=_channels,
    infer_type=float_type,
    gradient=self_adjoint,
    doc="The sum of nsize neighbouring channels around each; its own transpose.",
)
