"""ONNX forms of the functions of two arrays of one shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

from symjax_nnvm.ir.types import is_float
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, onnx_table
from symjax_nnvm.onnx.numbers import in_float, in_int32, truth
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.elementwise import binary as ops

Function = Callable[[Builder, Tensor, Tensor], Tensor]


def arithmetic(kind: str) -> Function:
    """An ONNX operator on two numbers."""
    return lambda g, x, y: in_int32(g, lambda x, y: g.op(kind, x, y), x, y)


def _mod(g: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Return the remainder with the sign of the divisor; x mod 0 = 0."""

    def of_whole(x: Tensor, y: Tensor) -> Tensor:
        none = g.op("Equal", y, 0)
        return g.op(
            "Where", none, g.constant(0, x.dtype), g.op("Mod", x, g.op("Where", none, g.constant(1, x.dtype), y))
        )

    if not is_float(x.dtype):
        return in_int32(g, of_whole, x, y)
    remainder = g.op("Mod", x, y, fmod=1)
    other_sign = g.op("Less", g.op("Mul", g.op("Sign", remainder), g.op("Sign", y)), 0.0)
    remainder = g.op("Where", other_sign, g.op("Add", remainder, y), remainder)
    return g.op("Where", g.op("Equal", y, 0.0), g.constant(0, x.dtype), remainder)


def _power(g: Builder, x: Tensor, y: Tensor) -> Tensor:
    """xʸ; of whole numbers a negative power is 1/n truncated: 0, unless the base is 1 or -1."""
    if is_float(x.dtype):
        return g.op("Pow", x, y)

    def of_whole(x: Tensor, y: Tensor) -> Tensor:
        zero = g.constant(0, x.dtype)
        base = g.op("Where", g.op("Equal", x, zero), g.op("Where", g.op("Less", y, zero), g.constant(2, x.dtype), x), x)
        return g.op("Pow", base, y)

    return in_int32(g, of_whole, x, y)


def _hypot(g: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Return √(x² + y²) as m √((x/m)² + (y/m)²), m the larger size: no square is too large."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        x, y = g.op("Abs", x), g.op("Abs", y)
        large, small = g.op("Max", x, y), g.op("Min", x, y)
        ratio = g.op("Div", small, g.op("Where", g.op("Equal", large, 0.0), g.constant(1, x.dtype), large))
        return g.op("Mul", large, g.op("Sqrt", g.op("Add", g.op("Mul", ratio, ratio), 1.0)))

    return in_float(g, function, x, y)


def _compare(kind: str, *, negated: bool = False) -> Function:
    def function(g: Builder, x: Tensor, y: Tensor) -> Tensor:
        compare = lambda x, y: g.op(kind, x, y)  # noqa: E731
        return truth(g, (lambda x, y: g.op("Not", compare(x, y))) if negated else compare, x, y)

    return function


def _logical(kind: str) -> Function:
    def function(g: Builder, x: Tensor, y: Tensor) -> Tensor:
        return g.cast(g.op(kind, g.cast(x, "bool"), g.cast(y, "bool")), x.dtype)

    return function


FUNCTIONS: dict[str, Function] = {
    "add": arithmetic("Add"),
    "sub": arithmetic("Sub"),
    "mul": arithmetic("Mul"),
    "div": arithmetic("Div"),
    "mod": _mod,
    "power": _power,
    "maximum": arithmetic("Max"),
    "minimum": arithmetic("Min"),
    "hypot": _hypot,
    "equal": _compare("Equal"),
    "not_equal": _compare("Equal", negated=True),
    "greater": _compare("Greater"),
    "greater_equal": _compare("GreaterOrEqual"),
    "lesser": _compare("Less"),
    "lesser_equal": _compare("LessOrEqual"),
    "logical_and": _logical("And"),
    "logical_or": _logical("Or"),
    "logical_xor": _logical("Xor"),
}
"""Function's name → what writes it, of two tensors of one dtype whose shapes are broadcast."""

_BITS = {"and": "And", "or": "Or", "xor": "Xor"}


def _bits(name: str) -> Function:
    def function(g: Builder, x: Tensor, y: Tensor) -> Tensor:
        return g.op(_BITS[name] if x.dtype == "bool" else f"Bitwise{_BITS[name]}", x, y)

    return function


def _arctan2(g: Builder, x: Tensor, y: Tensor) -> Tensor:
    """The angle of the point (y, x): arctan(x / y), half a turn further where y < 0."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        none, zero = g.op("Equal", y, 0.0), g.constant(0, x.dtype)
        angle = g.op("Atan", g.op("Div", x, g.op("Where", none, g.constant(1, x.dtype), y)))
        half_turn = g.op("Where", g.op("Less", x, 0.0), g.constant(-math.pi, x.dtype), g.constant(math.pi, x.dtype))
        turned = g.op("Add", angle, g.op("Where", g.op("Less", y, 0.0), half_turn, zero))
        return g.op("Where", none, g.op("Mul", g.op("Sign", x), math.pi / 2), turned)

    return in_float(g, function, x, y)


def _copysign(g: Builder, x: Tensor, y: Tensor) -> Tensor:
    def function(x: Tensor, y: Tensor) -> Tensor:
        size = g.op("Abs", x)
        return g.op("Where", g.op("Less", y, g.constant(0, y.dtype)), g.op("Neg", size), size)

    return in_int32(g, function, x, y)


def _ldexp(g: Builder, x: Tensor, y: Tensor) -> Tensor:
    return in_float(g, lambda x, y: g.op("Mul", x, g.op("Pow", g.constant(2, y.dtype), y)), x, y)


ALL_FUNCTIONS: dict[str, Function] = FUNCTIONS | {
    "arctan2": _arctan2,
    "copysign": _copysign,
    "ldexp": _ldexp,
    **{f"bitwise_{name}": _bits(name) for name in _BITS},
}
"""The same, with those that exist only in the NumPy dialect."""

onnx_table({row.op: FUNCTIONS[row.name] for row in ops.FUNCTIONS})
onnx_table({"_grad_add": FUNCTIONS["add"]})


@onnx_form("add_n")
def _add_n(g: Builder, p: Any, *args: Tensor) -> Tensor:
    return reduce(lambda x, y: FUNCTIONS["add"](g, x, y), args)
