"""ONNX forms of the functions of one array."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symjax_nnvm.ir.types import is_float
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import direct, identity, onnx_form, onnx_table, refuses
from symjax_nnvm.onnx.numbers import in_float, in_int32, truth, wide
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.elementwise import unary as ops

Function = Callable[[Builder, Tensor], Tensor]


# -- rounding: whole numbers stay as they are ------------------------------------------------------------------------


def _rint(g: Builder, x: Tensor) -> Tensor:
    """Return the nearest whole number, of two the lower."""
    below = g.op("Floor", x)
    return g.op("Where", g.op("Greater", g.op("Sub", x, below), 0.5), g.op("Ceil", x), below)


def _round(g: Builder, x: Tensor) -> Tensor:
    """Return the nearest whole number, of two the one farther from 0."""
    size = g.op("Abs", x)
    below = g.op("Floor", size)
    nearest = g.op("Where", g.op("Less", g.op("Sub", size, below), 0.5), below, g.op("Ceil", size))
    return g.op("Mul", g.op("Sign", x), nearest)


def _trunc(g: Builder, x: Tensor) -> Tensor:
    return g.op("Where", g.op("Less", x, 0.0), g.op("Ceil", x), g.op("Floor", x))


def _of_floats(function: Function) -> Function:
    return lambda g, x: function(g, x) if is_float(x.dtype) else x


ROUNDING: dict[str, Function] = {
    "rint": _rint,
    "round": _round,
    "ceil": direct("Ceil"),
    "floor": direct("Floor"),
    "trunc": _trunc,
    "fix": _trunc,
}

onnx_table({name: _of_floats(function) for name, function in ROUNDING.items()})


def relu(g: Builder, x: Tensor) -> Tensor:
    """max(x, 0)."""
    return g.op("Relu", x) if is_float(x.dtype) else in_int32(g, lambda x: g.op("Max", x, 0), x)


onnx_table(
    {
        "abs": lambda g, x: in_int32(g, lambda x: g.op("Abs", x), x),
        "negative": lambda g, x: in_int32(g, lambda x: g.op("Neg", x), x),
        "square": lambda g, x: in_int32(g, lambda x: g.op("Mul", x, x), x),
        "sign": lambda g, x: in_int32(g, lambda x: g.op("Sign", x), x),
        "relu": relu,
        "logical_not": lambda g, x: truth(g, lambda x: g.op("Equal", x, 0), x),
    }
)

for _name in ("_copy", "BlockGrad", "_identity_with_attr_like_rhs"):
    onnx_form(_name)(identity)

# -- functions of real numbers that ONNX has not ---------------------------------------------------------------------


def polynomial(g: Builder, x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's scheme; the coefficient of the highest power comes first."""
    total = g.constant(coefficients[0], x.dtype)
    for coefficient in coefficients[1:]:
        total = g.op("Add", g.op("Mul", total, x), coefficient)
    return total


def _cbrt(g: Builder, x: Tensor) -> Tensor:
    return g.op("Mul", g.op("Sign", x), g.op("Pow", g.op("Abs", x), 1 / 3))


def expm1(g: Builder, x: Tensor) -> Tensor:
    """eˣ - 1; near 0 as 2t / (1 - t) with t = tanh(x/2), where the difference would lose its digits."""
    t = g.op("Tanh", g.op("Mul", x, 0.5))
    near = g.op("Div", g.op("Mul", t, 2.0), g.op("Sub", g.constant(1, x.dtype), t))
    return g.op("Where", g.op("Less", g.op("Abs", x), 0.5), near, g.op("Sub", g.op("Exp", x), 1.0))


def log1p(g: Builder, x: Tensor) -> Tensor:
    """log(1 + x); near 0 as x log(u) / (u - 1) with u = 1 + x as it was rounded (Goldberg, 1991)."""
    u = g.op("Add", x, 1.0)
    log, moved = g.op("Log", u), g.op("Sub", u, 1.0)
    none = g.op("Equal", moved, 0.0)
    ratio = g.op("Div", g.op("Mul", x, log), g.op("Where", none, g.constant(1, x.dtype), moved))
    near = g.op("Where", none, x, ratio)
    return g.op("Where", g.op("Less", g.op("Abs", x), 0.5), near, log)


_CENTRE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 2.1858087e-04),
    *(-1.25372503e-03, -4.17768164e-03, 2.46640727e-01, 1.50140941),
)
_TAIL = (
    *(-2.00214257e-04, 1.00950558e-04, 1.34934322e-03, -3.67342844e-03, 5.73950773e-03),
    *(-7.6224613e-03, 9.43887047e-03, 1.00167406, 2.83297682),
)
"""The two polynomials of Giles, "Approximating the erfinv function", 2012, in single precision."""


def _erfinv(g: Builder, x: Tensor) -> Tensor:
    w = g.op("Neg", g.op("Log", g.op("Mul", g.op("Sub", g.constant(1, x.dtype), x), g.op("Add", x, 1.0))))
    centre = polynomial(g, g.op("Sub", w, 2.5), _CENTRE)
    tail = polynomial(g, g.op("Sub", g.op("Sqrt", w), 3.0), _TAIL)
    inner = g.op("Mul", x, g.op("Where", g.op("Less", w, 5.0), centre, tail))
    ends = g.op("Equal", g.op("Abs", x), 1.0)
    return g.op("Where", ends, g.op("Mul", x, math.inf), inner)


_LANCZOS = (
    *(0.99999999999980993227684700473478, 676.520368121885098567009190444019, -1259.13921672240287047156078755283),
    *(771.3234287776530788486528258894, -176.61502916214059906584551354, 12.507343278686904814458936853),
    *(-0.13857109526572011689554707, 9.984369578019570859563e-6, 1.50563273514931155834e-7),
)
"""Lanczos' coefficients for g = 7."""


def gammaln(g: Builder, x: Tensor) -> Tensor:
    """log |Γ(x)| by Lanczos' formula; below ½ by Γ(x) Γ(1 - x) = π / sin πx."""
    one = g.constant(1, x.dtype)
    low = g.op("Less", x, 0.5)
    z = g.op("Sub", g.op("Where", low, g.op("Sub", one, x), x), 1.0)
    series = g.constant(_LANCZOS[0], x.dtype)
    for i, coefficient in enumerate(_LANCZOS[1:], 1):
        series = g.op("Add", series, g.op("Div", g.constant(coefficient, x.dtype), g.op("Add", z, float(i))))
    t = g.op("Add", z, 7.5)
    # (z + ½) log t - t = (z + ½ - t / log t) log t, with fewer digits lost where z is large
    log = g.op("Log", t)
    power = g.op("Mul", g.op("Sub", g.op("Add", z, 0.5), g.op("Div", t, log)), log)
    upper = g.op("Add", g.op("Add", power, math.log(2 * math.pi) / 2), g.op("Log", series))
    sine = g.op("Abs", g.op("Sin", g.op("Mul", g.op("Sub", x, g.op("Floor", x)), math.pi)))
    lower = g.op("Sub", g.op("Sub", g.constant(math.log(math.pi), x.dtype), g.op("Log", sine)), upper)
    size = g.op("Abs", x)
    return g.op("Where", g.op("Equal", size, math.inf), size, g.op("Where", low, lower, upper))


def _gamma(g: Builder, x: Tensor) -> Tensor:
    """Return Γ(x) = ± exp log |Γ(x)|: below 0 its sign changes at every whole number, where it is not defined."""
    size = g.op("Exp", gammaln(g, x))
    floor = g.op("Floor", x)
    odd = g.op("Sub", floor, g.op("Mul", g.op("Floor", g.op("Mul", floor, 0.5)), 2.0))
    negative = g.op("And", g.op("Less", x, 0.0), g.op("Greater", odd, 0.5))
    signed = g.op("Where", negative, g.op("Neg", size), size)
    pole = g.op("And", g.op("Less", x, 0.0), g.op("Equal", x, floor))
    return g.op("Where", pole, g.constant(np.nan, x.dtype), signed)


def _softsign(g: Builder, x: Tensor) -> Tensor:
    return g.op("Softsign", x) if x.dtype != "float64" else g.op("Div", x, g.op("Add", g.op("Abs", x), 1.0))


def _in_steps(function: Function) -> Function:
    return lambda g, x: wide(g, lambda x: function(g, x), x)


def _times(factor: float) -> Function:
    return lambda g, x: g.op("Mul", x, factor)


REAL: dict[str, Function] = {
    "reciprocal": direct("Reciprocal"),
    "sqrt": direct("Sqrt"),
    "rsqrt": lambda g, x: g.op("Reciprocal", g.op("Sqrt", x)),
    "cbrt": _cbrt,
    "rcbrt": lambda g, x: g.op("Reciprocal", _cbrt(g, x)),
    "exp": direct("Exp"),
    "expm1": _in_steps(expm1),
    "log": direct("Log"),
    "log10": lambda g, x: g.op("Mul", g.op("Log", x), 1 / math.log(10)),
    "log2": lambda g, x: g.op("Mul", g.op("Log", x), 1 / math.log(2)),
    "log1p": _in_steps(log1p),
    "sin": direct("Sin"),
    "cos": direct("Cos"),
    "tan": direct("Tan"),
    "arcsin": direct("Asin"),
    "arccos": direct("Acos"),
    "arctan": direct("Atan"),
    "degrees": _times(180 / math.pi),
    "radians": _times(math.pi / 180),
    "sinh": direct("Sinh"),
    "cosh": direct("Cosh"),
    "tanh": direct("Tanh"),
    "arcsinh": direct("Asinh"),
    "arccosh": direct("Acosh"),
    "arctanh": direct("Atanh"),
    "erf": direct("Erf"),
    "erfinv": _in_steps(_erfinv),
    "gamma": _in_steps(_gamma),
    "gammaln": _in_steps(gammaln),
    "sigmoid": direct("Sigmoid"),
    "softsign": _softsign,
}
"""Function's name → what writes it, of floating-point numbers."""


def _real(function: Function) -> Function:
    return lambda g, x: in_float(g, lambda x: function(g, x), x)


onnx_table({name: _real(function) for name, function in REAL.items()})
refuses("_polygamma", reason="it is a derivative of log Γ, which occurs only in gradients")

# -- functions with parameters ---------------------------------------------------------------------------------------


@onnx_form("clip")
def _clip(g: Builder, p: ops.ClipParams, x: Tensor) -> Tensor:
    if is_float(x.dtype):
        return g.op("Clip", x, p.a_min, p.a_max)
    info = np.iinfo(x.dtype)
    low, high = (int(np.clip(np.trunc(bound), info.min, info.max)) for bound in (p.a_min, p.a_max))
    return in_int32(g, lambda x: g.op("Min", g.op("Max", x, low), high), x)


@onnx_form("smooth_l1")
def _smooth_l1(g: Builder, p: ops.SmoothL1Params, x: Tensor) -> Tensor:
    """Return c (|x| - c / (2 σ²)) with c = clip(σ² |x|, 0, 1)."""
    square = p.scalar * p.scalar
    if not square:
        return g.op("Mul", x, 0)

    def function(x: Tensor) -> Tensor:
        size = g.op("Abs", x)
        inner = g.op("Min", g.op("Mul", size, square), 1.0)
        return g.op("Mul", inner, g.op("Sub", size, g.op("Mul", inner, 0.5 / square)))

    return in_float(g, function, x)


@onnx_form("hard_sigmoid")
def _hard_sigmoid(g: Builder, p: ops.HardSigmoidParams, x: Tensor) -> Tensor:
    return g.op("HardSigmoid", x, alpha=p.alpha, beta=p.beta)


@onnx_form("Cast")
def _cast(g: Builder, p: ops.CastParams, x: Tensor) -> Tensor:
    return g.cast(x, p.dtype)


@onnx_form("_cast_like")
def _cast_like(g: Builder, p: Any, x: Tensor, like: Tensor) -> Tensor:
    return g.cast(x, like.dtype)
