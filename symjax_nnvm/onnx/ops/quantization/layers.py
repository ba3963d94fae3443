"""ONNX forms of layers of 8-bit integers: operators on floats between DequantizeLinear and QuantizeLinear, and products
with sums of int32."""

from __future__ import annotations

import math
from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.ops.nn.pooling import pool
from symjax_nnvm.onnx.ops.quantization.levels import (
    as_levels,
    as_numbers,
    calibrated,
    magnitude,
    sums_range,
)
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn.embedding import EmbeddingParams
from symjax_nnvm.ops.nn.fully_connected import FullyConnectedParams
from symjax_nnvm.ops.nn.pooling import PoolingParams
from symjax_nnvm.ops.quantization import layers as ops
from symjax_nnvm.ops.quantization.ranges import LEVELS, CalibratedParams
from symjax_nnvm.ops.shape.concat import ConcatParams

_CALIBRATE = "Calibrate the network: its nodes then have the range of their results."


def _reals(g: Builder, ranges: tuple[Tensor, ...]) -> list[Tensor]:
    return [magnitude(g, pair) for pair in zip(ranges[::2], ranges[1::2], strict=True)]


@onnx_form("_contrib_quantized_conv")
def _conv(g: Builder, p: ops.QuantizedConvParams, data: Tensor, weight: Tensor, *rest: Tensor) -> list[Tensor]:
    of_data, of_weight, *_ = _reals(g, rest[not p.no_bias :])
    sums = g.op(
        "ConvInteger",
        data,
        weight,
        dtype="int32",
        kernel_shape=list(p.kernel),
        strides=[stride for _, stride, _, _ in p.steps],
        dilations=[dilation for _, _, dilation, _ in p.steps],
        pads=[pad for *_, pad in p.steps] * 2,
    )
    if not p.no_bias:
        sums = g.op("Add", sums, g.cast(g.along(rest[0], 1, data.ndim), "int32"))
    return [sums, *sums_range(g, of_data, of_weight, True)]


@onnx_form("_contrib_quantized_fully_connected")
def _fully_connected(g: Builder, p: FullyConnectedParams, data: Tensor, weight: Tensor, *rest: Tensor) -> list[Tensor]:
    of_data, of_weight, *of_bias = _reals(g, rest[not p.no_bias :])
    rows = g.op("Flatten", data, axis=1) if p.flatten and data.ndim > 2 else data
    sums = g.op("MatMulInteger", rows, g.transpose(weight, (1, 0)), dtype="int32")
    if not p.no_bias:
        scale = g.op("Mul", g.op("Div", LEVELS[data.dtype], of_data), g.op("Div", LEVELS["int8"], of_weight))
        levels = g.op("Div", g.op("Mul", scale, of_bias[0]), LEVELS["int8"])
        sums = g.op("Add", sums, g.cast(g.op("Mul", g.cast(rest[0], "float32"), levels), "int32"))
    return [sums, *sums_range(g, of_data, of_weight, data.dtype == "int8")]


@onnx_form("_contrib_quantized_elemwise_add")
def _add(g: Builder, p: CalibratedParams, lhs: Tensor, rhs: Tensor, *ranges: Tensor) -> list[Tensor]:
    if not p.is_calibrated:
        g.refuse("a sum of int32 levels, which no ONNX operator rounds to", _CALIBRATE)
    if lhs.dtype != rhs.dtype:
        g.refuse("MXNet rounds uint8 to int8 before it adds int8", "Quantise both summands to one dtype.")
    numbers = [as_numbers(g, x, real) for x, real in zip((lhs, rhs), _reals(g, ranges), strict=True)]
    both = calibrated(g, p)
    return [as_levels(g, g.op("Add", *numbers), magnitude(g, both), lhs.dtype), *both]


@onnx_form("_contrib_quantized_elemwise_mul")
def _mul(g: Builder, p: ops.QuantizedMulParams, lhs: Tensor, rhs: Tensor, *ranges: Tensor) -> Tensor | list[Tensor]:
    product = g.op("Mul", g.cast(lhs, "int32"), g.cast(rhs, "int32"))
    of_lhs, of_rhs = _reals(g, ranges)
    if not p.is_calibrated and not p.enable_float_output:
        return [product, *sums_range(g, of_lhs, of_rhs, True)]
    level = g.op("Div", g.op("Mul", of_lhs, of_rhs), LEVELS["int8"] ** 2)
    numbers = g.op("Mul", g.cast(product, "float32"), level)
    if p.enable_float_output:
        return numbers
    both = calibrated(g, p)
    scaled = g.op("Div", numbers, g.op("Div", magnitude(g, both), LEVELS["int8"]))
    return [g.cast(g.op("Clip", scaled, -128.0, 127.0), "int8"), *both]


@onnx_form("_contrib_quantized_pooling")
def _pooling(g: Builder, p: ops.QuantizedPoolingParams, data: Tensor, low: Tensor, high: Tensor) -> list[Tensor]:
    unit = g.constant(1.0, "float32")
    numbers = g.op("DequantizeLinear", data, unit, g.constant(0, data.dtype), dtype="float32")
    numbers.shapes = data.shapes
    if p.pool_type == "avg" and p.count_include_pad is not False and not p.global_pool:
        sums = PoolingParams(**{**vars(p), "pool_type": "sum"})
        numbers = g.op("Div", pool(g, sums, numbers), float(math.prod(p.kernel)))
    else:
        numbers = pool(g, p, numbers)
    return [g.op("QuantizeLinear", numbers, unit, g.constant(0, data.dtype), dtype=data.dtype), low, high]


@onnx_form("_contrib_quantized_act")
def _act(g: Builder, p: ops.QuantizedActivationParams, data: Tensor, low: Tensor, high: Tensor) -> list[Tensor]:
    return [g.op("Max", data, g.constant(0, data.dtype)), low, high]


@onnx_form("_contrib_quantized_flatten")
def _flatten(g: Builder, p: Any, data: Tensor, low: Tensor, high: Tensor) -> list[Tensor]:
    return [g.op("Flatten", data, axis=1), low, high]


@onnx_form("_contrib_quantized_concat")
def _concat(g: Builder, p: ConcatParams, *inputs: Tensor) -> list[Tensor]:
    arrays, ranges = inputs[: p.num_args], inputs[p.num_args :]
    zero = g.constant([0.0], "float32")
    low, high = g.op("Min", zero, *ranges[::2]), g.op("Max", zero, *ranges[1::2])
    real, dtype = magnitude(g, (low, high)), g.outs[0].dtype
    parts = [
        as_levels(g, as_numbers(g, array, of_array), real, dtype)
        for array, of_array in zip(arrays, _reals(g, ranges), strict=True)
    ]
    return [g.concat(parts, p.dim % arrays[0].ndim), low, high]


@onnx_form("_contrib_quantized_embedding")
def _embedding(g: Builder, p: EmbeddingParams, data: Tensor, weight: Tensor, low: Tensor, high: Tensor) -> list[Tensor]:
    rows = g.op("Clip", g.cast(data, "int64"), 0, p.input_dim - 1)
    return [g.op("Gather", weight, rows, axis=0), low, high]


refuses(
    "_contrib_quantized_batch_norm",
    "_contrib_quantized_rnn",
    reason="ONNX' operator works on floats, whose results round to other levels",
    fix="Leave the layer out when the network is quantised (excluded_sym_names of quantize_model).",
)
