"""Softmax and its kin: softmax, log_softmax, softmin, SoftmaxActivation."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known, normal_axis, replaced
from symjax_nnvm.ir.rules.layout_rules import along
from symjax_nnvm.ir.rules.samples import across
from symjax_nnvm.ir.types import format_shape, is_float

FloatType = Literal["float16", "float32", "float64"]


class _SoftmaxLike(Protocol):
    @property
    def axis(self) -> int: ...
    @property
    def dtype(self) -> FloatType | None: ...


class SoftmaxParams(Params):
    axis: Axis = param(-1, doc="axis over which the result is normalised")
    temperature: float | None = param(None, doc="divisor of data; None: 1")
    dtype: FloatType | None = param(None, doc="dtype of the result, and of the computation if wider; None: data's")
    use_length: bool | None = param(False, doc="softmax only: normalise the first `length` elements, 0 for the rest")


class UnmaskedSoftmaxParams(SoftmaxParams):
    def check(self) -> str | None:
        if self.use_length:
            return "Only softmax takes lengths; pass use_length=False"
        return None


def _softmax_shapes(p: _SoftmaxLike, ins: Shapes, outs: Shapes):
    """data (…, k, …) ↔ (…, k, …); length has the shape of data without the axis. A number has an axis 0."""
    (data, *_), (out,) = same_shape(p, ins[:1], outs)
    if data is None:
        return ins, outs
    axis = normal_axis(p.axis, len(data) or 1)
    lengths = [replaced(data, axis) or (() if shape == data == () else (1,)) for shape in ins[1:]]
    if data and lengths and ins[1] is not None and len(ins[1]) == len(lengths[0]):
        dims = tuple(known(*pair) for pair in zip(lengths[0], ins[1], strict=True))
        data = out = (*dims[:axis], data[axis], *dims[axis:])
        lengths = [dims]
    return [data, *lengths], [out]


def _softmax_types(p: _SoftmaxLike, ins: Types, outs: Types):
    """The result has data's dtype unless `dtype` is set; length has any dtype."""
    if p.dtype is not None:
        return ins, [p.dtype]
    data = ins[0] if ins[0] is not None else outs[0]
    if data is not None and not is_float(data):
        problem, fix = f"The result of {data} data needs a floating-point dtype", "Pass dtype='float32'."
        raise InferenceError(problem, param="dtype", expected="a floating-point dtype", fix=fix)
    return [data, *ins[1:]], [data]


def _normalising_gradient(node: Node, dy: NodeEntry, weights: NodeEntry, sums_of: NodeEntry) -> NodeEntry:
    """weights ⊙ sum(sums_of) over the normalised axis, taken from dY."""
    total = apply("sum", sums_of, axis=(node.attrs.parsed.axis,), keepdims=True)
    return apply("elemwise_sub", dy, apply("broadcast_mul", weights, total))


def _to_data(node: Node, gradient: NodeEntry, sign: float = 1.0) -> NodeEntry:
    """The gradient of the scaled data as a gradient of data: its factor and its dtype."""
    p: SoftmaxParams = node.attrs.parsed
    factor = sign / (p.temperature or 1.0)
    if factor != 1:
        gradient = apply("_mul_scalar", gradient, scalar=factor)
    return gradient if p.dtype is None else apply("_cast_like", gradient, node.inputs[0])


def _softmax_gradient(node: Node, ograds: Entries):
    """dX = Y ⊙ (dY - sum(Y ⊙ dY)) / temperature."""
    y = NodeEntry(node, 0, 0)
    weighted = apply("elemwise_mul", ograds[0], y)
    gradient = _to_data(node, _normalising_gradient(node, weighted, y, weighted))
    return [gradient] + [None] * (len(node.inputs) - 1)


def _softmin_gradient(node: Node, ograds: Entries):
    """dX = -Y ⊙ (dY - sum(Y ⊙ dY)) / temperature."""
    y = NodeEntry(node, 0, 0)
    weighted = apply("elemwise_mul", ograds[0], y)
    return [_to_data(node, _normalising_gradient(node, weighted, y, weighted), sign=-1.0)]


def _log_softmax_gradient(node: Node, ograds: Entries):
    """dX = (dY - exp(Y) sum(dY)) / temperature."""
    probabilities = apply("exp", NodeEntry(node, 0, 0))
    return [_to_data(node, _normalising_gradient(node, ograds[0], probabilities, ograds[0]))]


def _rounded(p: SoftmaxParams) -> str | None:
    rounds = p.dtype is not None
    return "the result is rounded to the parameter's dtype; the gradient is that before rounding" if rounds else None


_CARD: dict[str, Any] = {
    "infer_shape": _softmax_shapes,
    "infer_type": _softmax_types,
    "inplace": ((0, 0),),
    "flops": 5,  # maximum, subtract, exp, sum, divide
    "not_derivative": _rounded,
    "layout": lambda p, order: None if getattr(p, "use_length", False) else along("axis")(p, order),
    "samples": across("axis"),
    "drawing": "loss",
}

register_op(
    "softmax",
    aliases=("_npx_softmax",),
    params=SoftmaxParams,
    inputs=("data", "length"),
    inputs_used=lambda p: ("data", "length") if p.use_length else ("data",),
    gradient=_softmax_gradient,
    doc="exp(x / temperature) normalised over an axis. A row of length 0 is zeros.",
    **_CARD,
)
register_op(
    "log_softmax",
    aliases=("_npx_log_softmax",),
    params=UnmaskedSoftmaxParams,
    inputs=("data",),
    gradient=_log_softmax_gradient,
    doc="The logarithm of softmax, without its underflow.",
    **_CARD,
)
register_op("softmin", params=UnmaskedSoftmaxParams, gradient=_softmin_gradient, doc="The softmax of -data.", **_CARD)

# -- SoftmaxActivation -----------------------------------------------------------------------------------------------


class SoftmaxActivationParams(Params):
    mode: Literal["channel", "instance"] = param("instance", doc="channel: over axis 1; instance: over the last axis")

    @property
    def axis(self) -> int:
        """The axis over which the result is normalised."""
        return 1 if self.mode == "channel" else -1


def _softmax_activation_shapes(p: SoftmaxActivationParams, ins: Shapes, outs: Shapes):
    """data (n, c, …) ↔ (n, c, …)."""
    inputs, outputs = same_shape(p, ins, outs)
    data = inputs[0]
    if data is not None and p.mode == "channel" and len(data) < 3:
        raise InferenceError(
            "Mode channel needs images", param="mode", expected="data of at least 3 axes", got=format_shape(data)
        )
    return inputs, outputs


def _softmax_activation_gradient(node: Node, ograds: Entries):
    """dX = Y ⊙ (dY - sum(Y ⊙ dY))."""
    y = NodeEntry(node, 0, 0)
    weighted = apply("elemwise_mul", ograds[0], y)
    return [_normalising_gradient(node, weighted, y, weighted)]


register_op(
    "SoftmaxActivation",
    samples=across("axis"),
    params=SoftmaxActivationParams,
    infer_shape=_softmax_activation_shapes,
    gradient=_softmax_activation_gradient,
    inplace=((0, 0),),
    drawing="loss",
    flops=5,
    deviation=Deviation(
        "of data with more than two axes the gradient is that of the output; MXNet normalises the gradient along other "
        "axes than the output",
        "training",
        lambda p: p.mode == "instance",
    ),
    doc="(deprecated; use softmax) Softmax over channels or over the last axis. Of data with more than two axes "
    "MXNet's gradient in mode instance is not that of its output; here it is.",
)
