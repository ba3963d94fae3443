"""ONNX forms of layers of 8-bit integers: operators on floats between DequantizeLinear and QuantizeLinear, and products
with sums of int32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symjax_nnvm.ir.types import DType
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.ops.nn.pooling import pool
from symjax_nnvm.onnx.ops.quantization.levels import (
    INT32_LEVELS,
    as_levels,
    as_numbers,
    calibrated,
    magnitude,
    sums_range,
    symmetric,
)
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn.batch_norm import channel_axis
from symjax_nnvm.ops.nn.embedding import EmbeddingParams
from symjax_nnvm.ops.nn.fully_connected import FullyConnectedParams
from symjax_nnvm.ops.nn.pooling import PoolingParams
from symjax_nnvm.ops.quantization import layers as ops
from symjax_nnvm.ops.quantization.ranges import LEVELS, CalibratedParams
from symjax_nnvm.ops.shape.concat import ConcatParams


def _reals(g: Builder, ranges: tuple[Tensor, ...]) -> list[Tensor]:
    return [magnitude(g, pair) for pair in zip(ranges[::2], ranges[1::2], strict=True)]


@onnx_form("_contrib_quantized_conv")
def _conv(g: Builder, p: ops.QuantizedConvParams, data: Tensor, weight: Tensor, *operands: Tensor) -> list[Tensor]:
    of_data, of_weight, *_ = _reals(g, operands[not p.no_bias :])
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
        sums = g.op("Add", sums, g.cast(g.along(operands[0], 1, data.ndim), "int32"))
    return [sums, *sums_range(g, of_data, of_weight, True)]


@onnx_form("_contrib_quantized_fully_connected")
def _fully_connected(
    g: Builder, p: FullyConnectedParams, data: Tensor, weight: Tensor, *operands: Tensor
) -> list[Tensor]:
    of_data, of_weight, *of_bias = _reals(g, operands[not p.no_bias :])
    rows = g.op("Flatten", data, axis=1) if p.flatten and data.ndim > 2 else data
    sums = g.op("MatMulInteger", rows, g.transpose(weight, (1, 0)), dtype="int32")
    if not p.no_bias:
        scale = g.op("Mul", g.op("Div", LEVELS[data.dtype], of_data), g.op("Div", LEVELS["int8"], of_weight))
        levels = g.op("Div", g.op("Mul", scale, of_bias[0]), LEVELS["int8"])
        sums = g.op("Add", sums, g.cast(g.op("Mul", g.cast(operands[0], "float32"), levels), "int32"))
    return [sums, *sums_range(g, of_data, of_weight, data.dtype == "int8")]


@onnx_form("_contrib_quantized_elemwise_add")
def _add(g: Builder, p: CalibratedParams, lhs: Tensor, rhs: Tensor, *ranges: Tensor) -> list[Tensor]:
    pairs = list(zip((lhs, rhs), _reals(g, ranges), strict=True))
    is_mixed = lhs.dtype != rhs.dtype  # oneDNN adds arrays of one dtype: uint8 becomes int8 of the result's scale first
    if p.is_calibrated:
        both, dtype = calibrated(g, p), "int8" if is_mixed else lhs.dtype
        result = magnitude(g, both)
        numbers = [as_numbers(g, x, real) for x, real in pairs]
        for i, (x, _) in enumerate(pairs):
            if is_mixed and x.dtype == "uint8":
                numbers[i] = as_numbers(g, as_levels(g, numbers[i], result, dtype), result)
        return [as_levels(g, g.op("Add", *numbers), result, dtype), *both]
    high = g.op("Add", *(real for _, real in pairs))
    scale = g.op("Div", g.constant(INT32_LEVELS, "float32"), high)
    parts: list[Tensor] = []
    for x, real in pairs:
        part = g.op("Mul", g.cast(x, "float32"), g.op("Mul", scale, g.op("Div", real, LEVELS[x.dtype])))
        parts.append(g.cast(_rounded(g, part, "int8"), "float32") if is_mixed and x.dtype == "uint8" else part)
    return [_rounded(g, g.op("Add", *parts), "int32"), *symmetric(g, high)]


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


@onnx_form("_contrib_quantized_batch_norm")
def _batch_norm(
    g: Builder, p: ops.QuantizedBatchNormParams, data: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, var: Tensor,
    min_data: Tensor, max_data: Tensor
) -> list[Tensor]:  # fmt: skip
    numbers = g.cast(data, "float32")
    if data.dtype == "uint8":
        numbers = g.cast(_rounded(g, g.op("Mul", numbers, LEVELS["int8"] / LEVELS["uint8"]), "int8"), "float32")
    both = calibrated(g, p)
    real = magnitude(g, both)
    factor = g.op("Div", gamma, g.op("Sqrt", g.op("Add", var, p.eps)))
    once_more = g.constant(1 / math.sqrt(1 + p.eps), "float32")  # as oneDNN does, by a variance of 1
    scale = g.op("Mul", g.op("Div", g.op("Mul", factor, magnitude(g, (min_data, max_data))), real), once_more)
    shift = g.op("Div", g.op("Mul", g.op("Sub", beta, g.op("Mul", mean, factor)), LEVELS["int8"]), real)
    axis = channel_axis(p.axis, data.ndim)
    scale, shift = (g.along(each, axis, data.ndim) for each in (scale, shift))
    return [_rounded(g, g.op("Add", g.op("Mul", numbers, scale), shift), "int8"), *both]


def _rounded(g: Builder, numbers: Tensor, dtype: DType) -> Tensor:
    """The nearest levels of a dtype, those in the middle to even ones."""
    info = np.iinfo(dtype)
    high = np.nextafter(np.float32(info.max), np.float32(0)) if dtype == "int32" else info.max
    return g.cast(g.op("Clip", g.op("Round", numbers), float(info.min), float(high)), dtype)


refuses(
    "_contrib_quantized_rnn",
    reason="ONNX' operator works on floats, whose results round to other levels",
    fix="Leave the layer out when the network is quantised (excluded_sym_names of quantize_model).",
)
