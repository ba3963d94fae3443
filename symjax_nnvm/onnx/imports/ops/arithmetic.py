"""ONNX' functions of two and more arrays, broadcast: arithmetic, comparisons, logic, choice."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from symjax_nnvm.ir.types import is_float
from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import ImportForm, import_table, onnx_import, same
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import alike, cast, expand_dims


def binary(
    broadcast: str, scalar: str, reversed_scalar: str, elementwise: str | None = None, gives: str | None = None
) -> Callable[[Composer, Value, Value], Value]:
    """A function of two arrays: with numbers of the graph as parameters. elementwise: the operator of arrays of one
    shape."""

    def form(g: Composer, x: Value, y: Value) -> Value:
        result = gives or x.dtype
        for value, other, op in ((y, x, scalar), (x, y, reversed_scalar)):
            number = value.number
            if number is not None and other.number is None and value.ndim <= other.ndim:
                return g.op(op, other, scalar=number, gives=result)
        x, y = alike(g, x, y)
        same_shape = elementwise is not None and x.shapes == y.shapes
        return g.op(elementwise if same_shape and elementwise else broadcast, x, y, gives=result)

    return form


add = binary("broadcast_add", "_plus_scalar", "_plus_scalar", "elemwise_add")
sub = binary("broadcast_sub", "_minus_scalar", "_rminus_scalar", "elemwise_sub")
mul = binary("broadcast_mul", "_mul_scalar", "_mul_scalar", "elemwise_mul")
div = binary("broadcast_div", "_div_scalar", "_rdiv_scalar", "elemwise_div")
larger = binary("broadcast_maximum", "_maximum_scalar", "_maximum_scalar")
smaller = binary("broadcast_minimum", "_minimum_scalar", "_minimum_scalar")
power = binary("broadcast_power", "_power_scalar", "_rpower_scalar")
_modulo = binary("broadcast_mod", "_mod_scalar", "_rmod_scalar")


def _compare(name: str, mirrored: str) -> ImportForm:
    return binary(f"broadcast_{name}", f"_{name}_scalar", f"_{mirrored}_scalar", gives="bool")


def _bits(name: str) -> ImportForm:
    number = f"_npi_bitwise_{name}_scalar"
    return binary(f"_npi_bitwise_{name}", number, number)


def _logical(name: str) -> ImportForm:
    def form(g: Composer, x: Value, y: Value) -> Value:
        return g.op(f"broadcast_logical_{name}", *alike(g, x, y), gives="bool")

    return form


@onnx_import("Pow")
def _pow(g: Composer, x: Value, y: Value) -> Value:
    return power(g, x, y if y.number is not None else cast(g, y, x.dtype))


@onnx_import("Mod")
def _mod(g: Composer, x: Value, y: Value) -> Value:
    """Return the remainder. With fmod it has the sign of the dividend. By 0 it is nan, where MXNet's is 0."""
    signed = bool(g.attr("fmod", 0))
    if not is_float(x.dtype):
        return sub(g, x, mul(g, div(g, x, y), y)) if signed else _modulo(g, x, y)
    remainder = mul(g, g.op("sign", x), _modulo(g, g.op("abs", x), g.op("abs", y))) if signed else _modulo(g, x, y)
    if y.array is not None and np.all(y.array):
        return remainder
    return add(g, remainder, g.op("_rdiv_scalar", y, scalar=0.0))


def _all(function: Callable[[Composer, Value, Value], Value]) -> ImportForm:
    def form(g: Composer, *inputs: Value) -> Value:
        return reduce(lambda x, y: function(g, x, y), inputs)

    return form


@onnx_import("Sum")
def _sum(g: Composer, *inputs: Value) -> Value:
    if len(inputs) > 2 and all(value.shapes == inputs[0].shapes for value in inputs):
        return g.op("add_n", *inputs)
    return reduce(lambda x, y: add(g, x, y), inputs)


@onnx_import("Mean")
def _mean(g: Composer, *inputs: Value) -> Value:
    return g.op("_div_scalar", _sum(g, *inputs), scalar=float(len(inputs)))


@onnx_import("Where")
def where(g: Composer, condition: Value, x: Value, y: Value) -> Value:
    """MXNet's where broadcasts nothing: each input is broadcast to the one that has the result's shape, or to a sum of
    zeros."""
    x, y = alike(g, x, y)
    every = (condition, x, y)
    full = next((value for value in every if all(_covers(value, other) for other in every)), None)
    if full is None:
        zeros = [g.op("_mul_scalar", cast(g, value, "float32"), scalar=0.0) for value in every]
        full = reduce(lambda a, b: add(g, a, b), zeros)
    return g.op("where", *(_broadcast_like(g, value, full) for value in every), gives=x.dtype)


def _covers(x: Value, y: Value) -> bool:
    """Return whether y broadcasts to the shape of x."""
    if y.ndim > x.ndim:
        return False
    return all(b in (a, (1,) * len(b)) for a, b in zip(x.sizes[x.ndim - y.ndim :], y.sizes, strict=True))


def _broadcast_like(g: Composer, x: Value, full: Value) -> Value:
    g.symbol(x)
    if x.symbol_shapes == full.symbol_shapes:
        return x
    wide = expand_dims(g, x, range(full.ndim - x.ndim))
    return wide if wide.symbol_shapes == full.symbol_shapes else g.op("broadcast_like", wide, full, gives=x.dtype)


import_table(
    {
        "Add": add,
        "Sub": sub,
        "Mul": mul,
        "Div": div,
        "Max": _all(larger),
        "Min": _all(smaller),
        "Equal": _compare("equal", "equal"),
        "Greater": _compare("greater", "lesser"),
        "GreaterOrEqual": _compare("greater_equal", "lesser_equal"),
        "Less": _compare("lesser", "greater"),
        "LessOrEqual": _compare("lesser_equal", "greater_equal"),
        "And": _logical("and"),
        "Or": _logical("or"),
        "Xor": _logical("xor"),
        **{f"Bitwise{name}": _bits(name.lower()) for name in ("And", "Or", "Xor")},
        "BitwiseNot": same("_npi_bitwise_not"),
    }
)
