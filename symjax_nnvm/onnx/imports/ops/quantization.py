"""ONNX' arithmetic of 8-bit integers: levels are floats in computations, and rounded as in ONNX.

Sums of products are exact up to 2²⁴, as float32 is; a larger one may end one level beside that of a runtime which sums
up in int32.
"""

from __future__ import annotations

from symjax_nnvm.ir.types import DType
from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import ImportForm, import_of, import_table, onnx_import
from symjax_nnvm.onnx.imports.ops.arithmetic import add, div, larger, mul, smaller, sub
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import cast, reshape, transpose
from symjax_nnvm.onnx.imports.ops.convolution import convolve
from symjax_nnvm.onnx.imports.ops.product import matmul
from symjax_nnvm.onnx.imports.ops.unary import round_to_even

_RANGES = {"int8": (-128.0, 127.0), "uint8": (0.0, 255.0)}


def _along(g: Composer, x: Value, axis: int, ndim: int) -> Value:
    """Return numbers of one axis so that they broadcast along that axis of an array; a single one as it is."""
    if x.ndim != 1 or ndim < 2:
        return x
    axis = g.axis(axis, ndim)
    return reshape(g, x, [(*shape, *(1,) * (ndim - axis - 1)) for shape in x.shapes])


def _floats(g: Composer, x: Value, zero: Value | None = None) -> Value:
    """Return levels as float32, counted from the zero point."""
    floats = cast(g, x, "float32")
    if zero is None or (zero.array is not None and not zero.array.any()):
        return floats
    return sub(g, floats, cast(g, zero, "float32"))


def _levels(g: Composer, floats: Value, zero: Value | None, dtype: DType) -> Value:
    """Return the nearest levels, counted from the zero point, within those that a dtype has."""
    if dtype not in _RANGES:
        g.refuse(f"MXNet cannot quantise to {dtype}", "Quantise the network to int8 or uint8.")
    low, high = _RANGES[dtype]
    rounded = round_to_even(g, floats)
    if zero is not None and (zero.array is None or zero.array.any()):
        rounded = add(g, rounded, cast(g, zero, "float32"))
    return cast(g, g.op("clip", rounded, a_min=low, a_max=high), dtype)


def _no_blocks(g: Composer) -> None:
    if g.attr("block_size", 0):
        g.refuse(
            "MXNet cannot quantise with a scale for each block",
            "Quantise the network with a scale for each array, or for each axis.",
        )


@onnx_import("QuantizeLinear", ignores=["saturate", "precision"])
def _quantize(g: Composer, x: Value, scale: Value, zero: Value | None = None) -> Value:
    _no_blocks(g)
    axis = g.attr("axis", 1)
    if g.attr("output_dtype", 0) and zero is None:
        g.refuse("MXNet has no such output_dtype", "Give the zero point, whose dtype the result has.")
    floats = div(g, cast(g, x, "float32"), cast(g, _along(g, scale, axis, x.ndim), "float32"))
    zeros = None if zero is None else _along(g, zero, axis, x.ndim)
    return _levels(g, floats, zeros, "uint8" if zero is None else zero.dtype)


@onnx_import("DequantizeLinear")
def _dequantize(g: Composer, x: Value, scale: Value, zero: Value | None = None) -> Value:
    _no_blocks(g)
    axis = g.attr("axis", 1)
    zeros = None if zero is None else _along(g, zero, axis, x.ndim)
    return mul(g, _floats(g, x, zeros), cast(g, _along(g, scale, axis, x.ndim), "float32"))


@onnx_import("DynamicQuantizeLinear")
def _dynamic_quantize(g: Composer, x: Value) -> list[Value]:
    zero = g.constant(0.0, "float32")
    low, high = smaller(g, g.op("min", x), zero), larger(g, g.op("max", x), zero)
    reach = sub(g, high, low)
    is_flat = g.op("_equal_scalar", reach, scalar=0.0)
    scale = g.op("_div_scalar", add(g, reach, is_flat), scalar=255.0)
    point = _levels(g, g.op("negative", div(g, low, scale)), None, "uint8")
    numbers = [reshape(g, number, [() for _ in number.shapes]) for number in (scale, point)]
    return [_levels(g, div(g, x, numbers[0]), numbers[1], "uint8"), *numbers]


@onnx_import("MatMulInteger")
def _matmul_integer(g: Composer, a: Value, b: Value, zero_a: Value | None = None, zero_b: Value | None = None) -> Value:
    return cast(g, _product(g, a, zero_a, b, zero_b), "int32")


@onnx_import("QLinearMatMul")
def _qlinear_matmul(
    g: Composer, a: Value, a_scale: Value, a_zero: Value, b: Value, b_scale: Value, b_zero: Value, scale: Value,
    zero: Value
) -> Value:  # fmt: skip
    product = _product(g, a, a_zero, b, b_zero)
    a_scale = _along(g, a_scale, -2, max(a.ndim, 2))
    return _rescaled(g, product, (a_scale, b_scale, scale), zero)


def _product(g: Composer, a: Value, zero_a: Value | None, b: Value, zero_b: Value | None) -> Value:
    rows = None if zero_a is None else _along(g, zero_a, -2, max(a.ndim, 2))
    return matmul(g, _floats(g, a, rows), _floats(g, b, zero_b))


def _rescaled(g: Composer, sums: Value, scales: tuple[Value, Value, Value], zero: Value) -> Value:
    """Return sums of products of levels as levels of the result. scales: of both factors, and of the result."""
    first, second, result = (cast(g, scale, "float32") for scale in scales)
    return _levels(g, mul(g, sums, div(g, mul(g, first, second), result)), zero, zero.dtype)


@onnx_import("ConvInteger")
def _conv_integer(g: Composer, x: Value, w: Value, zero_x: Value | None = None, zero_w: Value | None = None) -> Value:
    zeros = None if zero_w is None else _along(g, zero_w, 0, w.ndim)
    return cast(g, convolve(g, _floats(g, x, zero_x), _floats(g, w, zeros)), "int32")


@onnx_import("QLinearConv")
def _qlinear_conv(
    g: Composer, x: Value, x_scale: Value, x_zero: Value, w: Value, w_scale: Value, w_zero: Value, scale: Value,
    zero: Value, bias: Value | None = None
) -> Value:  # fmt: skip
    data, weight = _floats(g, x, x_zero), _floats(g, w, _along(g, w_zero, 0, w.ndim))
    sums = convolve(g, data, weight, None if bias is None else cast(g, bias, "float32"))
    return _rescaled(g, sums, (x_scale, _along(g, w_scale, 1, x.ndim), scale), zero)


# -- onnxruntime's own operators, which its quantiser writes -----------------------------------------------------------


@onnx_import("com.microsoft.QGemm")
def _qgemm(
    g: Composer, a: Value, a_scale: Value, a_zero: Value, b: Value, b_scale: Value, b_zero: Value,
    bias: Value | None = None, scale: Value | None = None, zero: Value | None = None
) -> Value:  # fmt: skip
    """Return α A B + C, as floats where no scale of the result is there."""
    a, b = transpose(g, a, (1, 0)) if g.attr("transA", 0) else a, transpose(g, b, (1, 0)) if g.attr("transB", 0) else b
    sums = _product(g, a, a_zero, b, b_zero)
    if bias is not None:
        sums = add(g, sums, cast(g, bias, "float32"))
    factors = mul(g, mul(g, a_scale, b_scale), g.constant(float(g.attr("alpha", 1.0)), "float32"))
    if scale is None:
        return mul(g, sums, factors)
    return _levels(g, mul(g, sums, div(g, factors, scale)), zero, "uint8" if zero is None else zero.dtype)


def _between_levels(kind: str, count: int | None) -> ImportForm:
    """The form of an operator of floats whose arrays are levels with a scale and a zero point each, as is its result.

    count: how many arrays there are, and the result's scale and zero point after them; None: any number, after these.
    """

    def form(g: Composer, *inputs: Value | None) -> Value:
        if g.attr("channels_last", 0):
            g.refuse("MXNet's operator has its channels first", "Write the file with channels_last=0.")
        operator, split = import_of(kind, g.opset).form, 2 if count is None else 3 * count
        assert operator is not None
        first, last = inputs[:split], inputs[split:]
        arrays, ends = (last, first) if count is None else (first, last)
        scale, zero = (*ends, None, None)[:2]
        levels = [(*arrays[i : i + 3], None, None)[:3] for i in range(0, len(arrays), 3)]
        numbers = [mul(g, _floats(g, x, of), by) for x, by, of in levels if x is not None and by is not None]
        if scale is None or len(numbers) < len(levels):
            g.refuse("an array or a scale is left out")
        result = operator(g, *numbers)
        assert isinstance(result, Value)
        return _levels(g, div(g, result, scale), zero, "uint8" if zero is None else zero.dtype)

    return form


import_table(
    {
        f"com.microsoft.QLinear{kind}": _between_levels(kind, count)
        for kind, count in (
            ("Add", 2), ("Mul", 2), ("AveragePool", 1), ("Concat", None), ("GlobalAveragePool", 1), ("LeakyRelu", 1),
            ("Sigmoid", 1)
        )
    }
)  # fmt: skip
