"""ONNX forms of quantisation and of its inverse."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.quantization.levels import (
    INT32_LEVELS,
    as_levels,
    as_numbers,
    ends,
    magnitude,
    range_of,
    symmetric,
)
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.quantization import quantize as ops
from symjax_nnvm.ops.quantization.ranges import LEVELS, CalibratedParams

_GREATEST = {"int8": 127.0, "uint8": 255.0}


@onnx_form("_contrib_quantize")
def _quantize(g: Builder, p: ops.QuantizeParams, data: Tensor, low: Tensor, high: Tensor) -> list[Tensor]:
    real = magnitude(g, (low, high))
    levels = as_levels(g, data, real, p.out_type, _GREATEST[p.out_type])
    return [levels, *(symmetric(g, real) if p.out_type == "int8" else (low, high))]


@onnx_form("_contrib_quantize_v2")
def _quantize_v2(g: Builder, p: ops.QuantizeV2Params, data: Tensor) -> list[Tensor]:
    if data.dtype != "float32":
        most = LEVELS[p.dtype]
        whole = ends(g, 0.0 if p.dtype == "uint8" else -most, most)
        return [data, *(range_of(g, p, data) if p.is_calibrated else whole)]
    both = range_of(g, p, data)
    real = magnitude(g, both)
    return [as_levels(g, data, real, p.dtype), *(symmetric(g, real) if p.dtype == "int8" else both)]


@onnx_form("_contrib_quantize_asym")
def _quantize_asym(g: Builder, p: CalibratedParams, data: Tensor) -> list[Tensor]:
    if data.dtype == "uint8":
        return [data, *ends(g, 1.0, 0.0)]
    if data.dtype == "int8":
        return [g.cast(g.op("Add", g.cast(data, "int32"), 128), "uint8"), *ends(g, 1.0, 128.0)]
    low, high = range_of(g, p, data)
    scale = g.op("Div", g.constant([255.0], "float32"), g.op("Sub", high, low))
    shift = g.op("Sub", g.constant([255.0], "float32"), g.op("Mul", high, scale))
    levels = g.op("Clip", g.op("Round", g.op("Add", g.op("Mul", data, scale), shift)), 0.0, 255.0)
    return [g.cast(levels, "uint8"), scale, shift]


@onnx_form("_contrib_dequantize")
def _dequantize(g: Builder, p: ops.DequantizeParams, data: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return as_numbers(g, data, magnitude(g, (low, high)))


@onnx_form("_contrib_requantize")
def _requantize(g: Builder, p: ops.QuantizeV2Params, data: Tensor, low: Tensor, high: Tensor) -> list[Tensor]:
    level = g.op("Div", magnitude(g, (low, high)), INT32_LEVELS)
    numbers = g.op("Mul", g.cast(data, "float32"), level)
    real = magnitude(g, range_of(g, p, numbers))
    bounds = symmetric(g, real) if p.dtype == "int8" else (g.constant([0.0], "float32"), g.reshape(real, 1))
    return [as_levels(g, numbers, real, p.dtype, _GREATEST[p.dtype]), *bounds]
