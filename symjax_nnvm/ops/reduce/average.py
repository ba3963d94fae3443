"""average and percentile of MXNet's NumPy dialect."""

from __future__ import annotations

from typing import ClassVar, Literal

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Axes, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, register_op
from symjax_nnvm.ir.rules.axes import completed, normal_axis
from symjax_nnvm.ir.rules.costs import per_input
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.ops.elementwise.binary import mul, number_type
from symjax_nnvm.ops.reduce.reduction import reduced_shape
from symjax_nnvm.ops.reduce.to_scalar import AxesParams


class WeightsParams(Params):
    axis: Axes | None = param(None, doc="axes to average over; None: all, (): none")

    @property
    def reduction(self) -> AxesParams:
        """The reduction that the average is a quotient of."""
        return AxesParams(axis=self.axis)


class AverageParams(WeightsParams):
    returned: bool = param(False, doc="whether the sum of weights is a second output that is seen")
    weighted: bool = param(True, doc="whether there is an input of weights")


def _weights_shape(p: WeightsParams, weights: tuple[int | None, ...], a: tuple[int | None, ...]) -> None:
    """Raise where weights are neither of the shape of a nor numbers along its one axis."""
    if len(weights) == len(a):
        if any(None not in pair and pair[0] != pair[1] for pair in zip(weights, a, strict=True)):
            got = format_shape(weights)
            raise InferenceError("The number of weights is wrong", expected=format_shape(a), got=got)
        return
    if p.axis is None or len(p.axis) != 1:
        problem = "Axis must be specified, and be one, when shapes of a and weights differ"
        raise ParamError(problem, param="axis", expected="one axis", got=p.axis)
    length = a[normal_axis(p.axis[0], len(a))]
    if len(weights) != 1 or (None not in (weights[0], length) and weights[0] != length):
        expected = f"{format_shape(a)} or ({length},)"
        raise InferenceError("The number of weights is wrong", expected=expected, got=format_shape(weights))


def _average_shapes(p: AverageParams, ins: Shapes, outs: Shapes):
    """a (…, d, …), weights (…, d, …) or (d,) → (…, …), and the sum of weights (…, …) or ()."""
    a = ins[0]
    if a is None or (p.weighted and ins[1] is None):
        return ins, outs
    reduced = reduced_shape(p.reduction, a)
    if not p.weighted:
        return ins, [reduced, ()]
    weights = ins[1] or ()
    _weights_shape(p, weights, a)
    if len(weights) < len(a):
        return ins, [reduced, ()]
    both = completed(a, weights)
    return [both, both], [reduced, reduced]


def _average_gradient(node: Node, ograds: Entries) -> list[NodeEntry]:
    """dA = dY W / ΣW, dW = dY (A - Y) / ΣW, dY repeated over the axes."""
    p: AverageParams = node.attrs.parsed
    a, dy, axes = node.inputs[0], ograds[0], {"axis": node.attrs.parsed.axis, "keepdims": False}
    if not p.weighted:
        return [apply("_backward_npi_mean", dy, a, **axes)]
    weights = node.inputs[1]
    weights_of_all = apply("_weights_like", weights, a, axis=p.axis)
    part = apply("_backward_np_sum", apply("elemwise_div", dy, apply("_np_sum", weights_of_all, **axes)), a, **axes)
    mean = apply("_backward_np_sum", NodeEntry(node, 0, 0), a, **axes)
    of_weights = mul(part, apply("elemwise_sub", a, mean))
    return [
        mul(part, weights_of_all),
        apply("_backward_weights_like", of_weights, weights, a, axis=p.axis),
    ]


register_op(
    "_npi_average",
    params=AverageParams,
    inputs=("a", "weights"),
    inputs_used=lambda p: ("a", "weights") if p.weighted else ("a",),
    num_outputs=2,
    visible_outputs=lambda p: 1 + p.returned,
    infer_shape=_average_shapes,
    infer_type=number_type,
    gradient=_average_gradient,
    out_grads_read=1,
    not_derivative=lambda p: "no gradient passes through the sum of weights, as in MXNet" if p.returned else None,
    flops=per_input(2),
    doc="Σ a · weights / Σ weights over axes, and Σ weights; weights of one axis are those along `axis`.",
)


def _weights_like_shapes(p: WeightsParams, ins: Shapes, outs: Shapes):
    """weights (…, d, …) or (d,), like (…, d, …) → (…, d, …)."""
    weights, like = ins[0], completed(ins[1], *outs)
    if weights is not None and like is not None:
        _weights_shape(p, weights, like)
    return [weights, like], [like]


register_op(
    "_weights_like",
    params=WeightsParams,
    inputs=("weights", "like"),
    infer_shape=_weights_like_shapes,
    FIgnoreInputs=lambda attrs: (1,),
    flops=0,
    own=True,
    doc="Weights of an average in the shape of `like`: what its gradient is written with.",
)
linear("_weights_like", of="weights", adjoint="_backward_weights_like")


class PercentileParams(Params):
    numpy: ClassVar[bool] = True
    axis: Axes | None = param(None, doc="axes along which elements are ordered; None: all")
    interpolation: Literal["higher", "linear", "lower", "midpoint", "nearest"] = param(
        "linear", doc="how a percentile between two elements is computed"
    )
    keepdims: bool = param(False, doc="keep the reduced axes, with length 1")
    q_scalar: float | None = param(None, doc="the percentage, where it is not an input")

    def check(self) -> str | None:
        """Whether the percentage is one."""
        if self.q_scalar is not None and not 0 <= self.q_scalar <= 100:
            return f"percentile exceeds the valid range: q_scalar={self.q_scalar:g} is not in [0, 100]"
        return None


def _percentile_shapes(p: PercentileParams, ins: Shapes, outs: Shapes):
    """a (…, d, …), q () or (n,) → (…, …) or (n, …, …)."""
    if any(shape is None for shape in ins):
        return ins, outs
    a, q = ins[0] or (), ins[1] or () if len(ins) > 1 else ()
    if len(q) > 1:
        raise InferenceError("q has too many axes", input="q", expected="() or (n,)", got=format_shape(q))
    return ins, [(*q, *reduced_shape(p, a))]


def _percentile_type(p: PercentileParams, ins: Types, outs: Types):
    """a of numbers, q of any dtype → float64 of float64, float32 of others."""
    (a,), _ = number_type(p, ins[:1], ())
    return ins, [a if a in (None, "float64") else "float32"]


register_op(
    "_npi_percentile",
    params=PercentileParams,
    inputs=("a", "q"),
    inputs_used=lambda p: ("a", "q") if p.q_scalar is None else ("a",),
    infer_shape=_percentile_shapes,
    infer_type=_percentile_type,
    gradient=lambda node, ograds: [None] * len(node.inputs),
    not_derivative="MXNet passes no gradient through it",
    flops="the work is sorting",
    doc="The q-th percentile; interpolation nearest rounds halves up. As in MXNet it passes no "
    "gradient. Percentages in q outside of [0, 100] are the nearest of them, where MXNet has an error.",
)
