"""ONNX forms of the small functions of MXNet's contrib module."""

from __future__ import annotations

from math import sqrt
from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import in_float
from symjax_nnvm.onnx.ops.elementwise.unary import polynomial
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.elementwise import contrib as ops


@onnx_form("_contrib_quadratic")
def _quadratic(g: Builder, p: ops.QuadraticParams, data: Tensor) -> Tensor:
    return in_float(g, lambda x: polynomial(g, x, (p.a, p.b, p.c)), data)


@onnx_form("_contrib_div_sqrt_dim")
def _div_sqrt_dim(g: Builder, p: Any, data: Tensor) -> Tensor:
    size = g.size(data, -1)
    root = sqrt(size) if isinstance(size, int) else g.op("Sqrt", g.cast(size, data.dtype))
    return g.op("Div", data, root)


@onnx_form("_contrib_allclose")
def _all_close(g: Builder, p: ops.AllCloseParams, a: Tensor, b: Tensor) -> Tensor:
    wide = "float64" if a.dtype == "float64" else "float32"
    a, b = g.cast(a, wide), g.cast(b, wide)
    bound = g.op("Add", g.op("Mul", g.op("Abs", b), p.rtol), p.atol)
    # The difference of equal infinities is NaN; it is the comparison that finds them close.
    close = g.op("Or", g.op("Equal", a, b), g.op("LessOrEqual", g.op("Abs", g.op("Sub", a, b)), bound))
    if p.equal_nan:
        close = g.op("Or", close, g.op("And", g.op("IsNaN", a), g.op("IsNaN", b)))
    every = g.op("ReduceMin", g.cast(close, "int32"), keepdims=0)
    return g.cast(every, "uint8")
