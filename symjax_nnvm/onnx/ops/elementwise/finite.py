"""ONNX forms of what is finite, and of rounding, in the NumPy dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symjax_nnvm.ir.types import is_float
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, onnx_table
from symjax_nnvm.onnx.numbers import truth
from symjax_nnvm.onnx.ops.elementwise.promoted import BITS_OPSET
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.elementwise import finite as ops


def _infinite(g: Builder, x: Tensor, *, positive: bool = True, negative: bool = True) -> Tensor:
    wide = g.cast(x, "float64" if x.dtype == "float64" else "float32")
    return g.op("IsInf", wide, detect_positive=int(positive), detect_negative=int(negative), dtype="bool")


def _nan(g: Builder, x: Tensor) -> Tensor:
    return g.op("IsNaN", x, dtype="bool")


def _verdict(function: Callable[[Builder, Tensor], Tensor]) -> Callable[[Builder, Tensor], Tensor]:
    """Return a function with a truth value, for which whole numbers are computed in float64."""
    return lambda g, x: function(g, x if is_float(x.dtype) else g.cast(x, "float64"))


onnx_table(
    {
        "_npi_isnan": _verdict(_nan),
        "_npi_isinf": _verdict(_infinite),
        "_npi_isfinite": _verdict(lambda g, x: g.op("Not", g.op("Or", _infinite(g, x), _nan(g, x)))),
        "_npi_isposinf": _verdict(lambda g, x: _infinite(g, x, negative=False)),
        "_npi_isneginf": _verdict(lambda g, x: _infinite(g, x, positive=False)),
        "_npi_logical_not": lambda g, x: g.cast(truth(g, lambda x: g.op("Equal", x, 0), x), "bool"),
    }
)


@onnx_form("_npi_bitwise_not", opset=BITS_OPSET)
def _bitwise_not(g: Builder, p: Any, x: Tensor) -> Tensor:
    return g.op("Not" if x.dtype == "bool" else "BitwiseNot", x)


@onnx_form("_npi_around")
def _around(g: Builder, p: ops.AroundParams, x: Tensor) -> Tensor:
    scale = 10 ** abs(p.decimals)
    if not is_float(x.dtype):
        if p.decimals >= 0:
            return x
        wide = g.cast(x, "int64")
        return g.cast(g.op("Mul", g.op("Div", wide, scale), scale), x.dtype)
    there, back = ("Mul", "Div") if p.decimals >= 0 else ("Div", "Mul")
    return g.op(back, g.op("Round", g.op(there, x, float(scale))), float(scale))


@onnx_form("_npi_nan_to_num")
def _nan_to_num(g: Builder, p: ops.NanToNumParams, data: Tensor) -> Tensor:
    if not is_float(data.dtype):
        return data
    largest = float(np.finfo(data.dtype).max)
    above = g.constant(largest if p.posinf is None else p.posinf, data.dtype)
    below = g.constant(-largest if p.neginf is None else p.neginf, data.dtype)
    result = g.op("Where", _nan(g, data), g.constant(p.nan, data.dtype), data)
    result = g.op("Where", _infinite(g, data, negative=False), above, result)
    return g.op("Where", _infinite(g, data, positive=False), below, result)
