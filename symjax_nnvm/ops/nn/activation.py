"""Activation and LeakyReLU: the nonlinearities of a network, chosen by a parameter."""

from __future__ import annotations

import math
from typing import Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, first_type, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.layout_rules import AGNOSTIC
from symjax_nnvm.ir.rules.quantized_form import quantized_as
from symjax_nnvm.ir.rules.size_symbols import is_open
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.ops.elementwise.scalar import times
from symjax_nnvm.ops.elementwise.unary import FUNCTIONS

# -- Activation ------------------------------------------------------------------------------------------------------


class ActivationParams(Params):
    act_type: Literal["relu", "sigmoid", "softrelu", "softsign", "tanh"] = param(doc="the function")


_FORMULAS = {name: formula for name, formula, _ in FUNCTIONS}


def _activation_gradient(node: Node, ograds: Entries):
    """That of the operator with the function's name; softrelu = log(1 + eˣ) has the derivative sigmoid."""
    data, (dy,) = node.inputs[0], ograds
    kind = node.attrs.parsed.act_type
    if kind == "softrelu":
        return [apply("elemwise_mul", dy, apply("sigmoid", data))]
    y = NodeEntry(node, 0, 0)
    if kind == "relu":  # 0 at nan, where the operator relu has nan: both are MXNet's
        return [apply("elemwise_mul", dy, apply("_greater_scalar", y, scalar=0.0))]
    return [_FORMULAS[kind](dy, data, y)]


register_op(
    "Activation",
    FQuantized=quantized_as("_contrib_quantized_act"),
    aliases=("_npx_activation",),
    params=ActivationParams,
    infer_shape=same_shape,
    infer_type=float_type,
    gradient=_activation_gradient,
    inplace=((0, 0),),
    flops=1,
    precision="either",
    layout="agnostic",
    drawing="activation",
    FActivation=lambda attrs: "relu" if attrs.parsed.act_type == "relu" else None,
    doc="relu max(x, 0), sigmoid 1 / (1 + e⁻ˣ), softrelu log(1 + eˣ), softsign x / (1 + |x|), or tanh.",
)

# -- LeakyReLU -------------------------------------------------------------------------------------------------------


class LeakyReLUParams(Params):
    act_type: Literal["elu", "gelu", "leaky", "prelu", "rrelu", "selu"] = param("leaky", doc="the function")
    slope: float = param(0.25, doc="leaky: factor of x < 0; elu: factor of eˣ - 1")
    lower_bound: float = param(0.125, doc="rrelu: smallest slope")
    upper_bound: float = param(0.333999991, doc="rrelu: largest slope")

    def check(self) -> str | None:
        if self.act_type == "rrelu" and self.lower_bound > self.upper_bound:
            return (
                f"Parameter lower_bound={self.lower_bound:g}: expected at most upper_bound={self.upper_bound:g}, the "
                "slopes are drawn between them"
            )
        return None


SELU_SCALE = 1.0507009873554804934193349852946
SELU_ALPHA = 1.6732632423543772848170429916717


def slopes_shape(gamma: Shape, data: Shape) -> Shape:
    """gamma's shape with as many axes as data, to be broadcast along data.

    MXNet's rule for up to two axes: from the last one of gamma backwards, each stands on axis 1 of data or on axis 0,
    the first that has its length (or any, for length 1). More axes are the leading ones of data.
    Raises InferenceError when gamma does not fit.
    """
    places: list[int | None] = [1] * len(data)
    unplaced = len(gamma)
    for axis in reversed(range(min(max(2, len(gamma)), len(data)))):
        if not unplaced:
            break
        if is_open(gamma[unplaced - 1]) and not is_open(data[axis]):
            raise InferenceError(
                "Whether gamma has a slope for each channel is unknown",
                input="gamma",
                expected="numbers for the sizes of gamma",
                got=format_shape(gamma),
            )
        if gamma[unplaced - 1] in (1, None, data[axis]) or data[axis] is None:
            unplaced -= 1
            places[axis] = gamma[unplaced]
    if unplaced:
        channels = data[min(1, len(data) - 1)] if data else None
        first = "" if channels is None else f"({channels},), one for each channel, "
        raise InferenceError(
            "Cannot broadcast gamma to data",
            input="gamma",
            expected=f"{first}(1,), or the leading dimensions of data {format_shape(data)}",
            got=format_shape(gamma),
        )
    return tuple(places)


def _leaky_relu_shapes(p: LeakyReLUParams, ins: Shapes, outs: Shapes):
    """data (n, c, …), gamma (c,), (1,) or leading axes of data → (n, c, …); rrelu also gives the slopes, like data."""
    data, gamma = ins[0], ins[1] if len(ins) > 1 else None
    (data,), outputs = same_shape(p, [data], outs)
    if len(ins) == 1:
        return [data], outputs
    if data is not None:
        if gamma is None:
            gamma = (data[min(1, len(data) - 1)],) if data else None  # a number without axes has no channels
        else:
            slopes_shape(gamma, data)
    return [data, gamma], outputs


def _initial_slope(attrs: NodeAttrs, variable: Node, i: int) -> None:
    """Learned slopes start as 0.25 by default."""
    if i == 1 and attrs.parsed.act_type == "prelu":
        variable.attrs.dict.setdefault("__init__", '["Constant", {"value": 0.25}]')


def _leaky_relu_gradient(node: Node, ograds: Entries):
    """dX = dY where X > 0, elsewhere by the function's slope; gamma receives the sum of dY X where X ≤ 0."""
    p: LeakyReLUParams = node.attrs.parsed
    data, dy, y = node.inputs[0], ograds[0], NodeEntry(node, 0, 0)
    if p.act_type == "gelu":
        return [apply("elemwise_mul", dy, _gelu_slope(data))]
    positive = apply("_greater_scalar", data, scalar=0.0)
    match p.act_type:
        case "leaky":
            below = times(dy, p.slope)
        case "elu":
            below = apply("elemwise_mul", dy, apply("_plus_scalar", y, scalar=p.slope))
        case "selu":
            below = apply("elemwise_mul", dy, apply("_plus_scalar", y, scalar=SELU_SCALE * SELU_ALPHA))
            return [apply("where", positive, times(dy, SELU_SCALE), below)]
        case "rrelu":
            below = apply("elemwise_mul", dy, NodeEntry(node, 1, 0))
        case _:
            return _prelu_gradient(node, dy, positive)
    return [apply("where", positive, dy, below)]


def _prelu_gradient(node: Node, dy: NodeEntry, positive: NodeEntry) -> Entries:
    data, gamma = node.inputs
    slopes = apply("_slopes_like", gamma, data)
    dx = apply("where", positive, dy, apply("broadcast_mul", dy, slopes))
    weighted = apply("where", positive, apply("zeros_like", dy), apply("elemwise_mul", dy, data))
    return [dx, apply("reshape_like", apply("_sum_like", weighted, slopes), gamma)]


def _gelu_slope(x: NodeEntry) -> NodeEntry:
    """Φ(x) + x φ(x), the normal distribution and its density."""
    error = apply("erf", times(x, math.sqrt(0.5)))
    distribution = times(apply("_plus_scalar", error, scalar=1.0), 0.5)
    density = times(apply("exp", times(apply("square", x), -0.5)), 1 / math.sqrt(2 * math.pi))
    return apply("elemwise_add", distribution, apply("elemwise_mul", x, density))


_DEVIATIONS = (
    Deviation(
        "the gradient of selu is its derivative; MXNet multiplies with the scale twice below 0",
        "training",
        lambda p: p.act_type == "selu",
    ),
    Deviation(
        "gamma's gradient is right in every place; MXNet's can come out multiplied by gamma inside a network, "
        "as it reuses memory that it still reads",
        "training",
        lambda p: p.act_type == "prelu",
    ),
)


register_op(
    "LeakyReLU",
    aliases=("_npx_leaky_relu",),
    params=LeakyReLUParams,
    inputs=("data", "gamma"),
    inputs_used=lambda p: ("data", "gamma") if p.act_type == "prelu" else ("data",),
    num_outputs=lambda p: 2 if p.act_type == "rrelu" else 1,
    FListOutputNames=lambda attrs: ("output", "mask") if attrs.parsed.act_type == "rrelu" else ("output",),
    infer_shape=_leaky_relu_shapes,
    infer_type=float_type,
    gradient=_leaky_relu_gradient,
    inplace=((0, 0),),
    FSetInputVarAttrOnCompose=_initial_slope,
    flops=1,
    precision="either",
    draws=lambda p: "training" if p.act_type == "rrelu" else None,
    deviation=_DEVIATIONS,
    layout=lambda p, order: None if p.act_type in ("prelu", "rrelu") else AGNOSTIC(p, order),
    drawing="activation",
    FActivation=lambda attrs: "gelu" if attrs.parsed.act_type == "gelu" else None,
    doc="x where x > 0, elsewhere: leaky slope · x, elu slope · (eˣ - 1), prelu gamma · x with a learned gamma for "
    "each channel (or one for all, or of the shape of the leading axes of data), rrelu a random slope times x in "
    "training and the mean slope otherwise (the output `mask` holds the slopes). selu is a scaled elu, gelu x Φ(x) "
    "with the exact normal distribution Φ. gamma's gradient is right in every place; inside a network MXNet's "
    "can come out multiplied by gamma.",
)


def _slopes_like_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """gamma (c,) or leading axes, like (n, c, …) → (1, c, 1, …): as many axes as like."""
    gamma, like = ins
    return ins, outs if gamma is None or like is None else [slopes_shape(gamma, like)]


register_op(
    "_slopes_like",
    inputs=("gamma", "like"),
    infer_shape=_slopes_like_shapes,
    infer_type=first_type,
    gradient=lambda node, ograds: [apply("reshape_like", ograds[0], node.inputs[0]), None],
    FIgnoreInputs=lambda attrs: (1,),
    flops=0,
    doc="The learned slopes of LeakyReLU, shaped to be broadcast along `like`.",
)
