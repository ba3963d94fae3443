"""JAX rules of layers of 8-bit integers."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.indexing.take import take_along
from lowering.ops.nn.pooling import pool
from lowering.ops.quantization.levels import (
    INT32_LEVELS,
    accumulated,
    along,
    convolve,
    dot,
    ends,
    magnitude,
    over_root,
    rounded,
    rounding,
    scalar,
    sums_range,
)
from symjax_nnvm.ops.nn.batch_norm import channel_axis
from symjax_nnvm.ops.nn.embedding import EmbeddingParams
from symjax_nnvm.ops.nn.fully_connected import FullyConnectedParams
from symjax_nnvm.ops.nn.pooling import PoolingParams
from symjax_nnvm.ops.quantization import layers as ops
from symjax_nnvm.ops.quantization.ranges import LEVELS, CalibratedParams
from symjax_nnvm.ops.shape.concat import ConcatParams


def _ends_of(ranges: tuple[Array, ...]) -> list[tuple[Array, Array]]:
    """The ranges of arrays, in pairs."""
    numbers = [scalar(end) for end in ranges]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def flattened(p: FullyConnectedParams, data: Array) -> Array:
    """Data of a dense layer, (…, d)."""
    return data.reshape(data.shape[0], math.prod(data.shape[1:])) if p.flatten else data


@lowers("_contrib_quantized_conv")
def _conv(p: ops.QuantizedConvParams, data: Array, weight: Array, *operands: Array):
    bias = None if p.no_bias else operands[0].astype(jnp.int32)  # oneDNN adds it as it is, whatever its range
    of_data, of_weight, *_ = _ends_of(operands[not p.no_bias :])
    sums = accumulated(convolve(p, data, weight), bias, p.channel_axis)
    return sums, *sums_range(magnitude(*of_data), magnitude(*of_weight), True)  # as if uint8 had 127 levels: MXNet's


@lowers("_contrib_quantized_fully_connected")
def _fully_connected(p: FullyConnectedParams, data: Array, weight: Array, *operands: Array):
    of_data, of_weight, *of_bias = _ends_of(operands[not p.no_bias :])
    bias = None
    if not p.no_bias:
        scale = (LEVELS[data.dtype.name] / magnitude(*of_data)) * (LEVELS["int8"] / magnitude(*of_weight))
        levels = scale * magnitude(*of_bias[0]) / LEVELS["int8"]
        bias = (operands[0].astype(jnp.float32) * levels).astype(jnp.int32)
    sums = accumulated(dot(flattened(p, data), weight), bias, -1)
    return sums, *sums_range(magnitude(*of_data), magnitude(*of_weight), data.dtype == np.int8)


@lowers("_contrib_quantized_elemwise_add")
def _add(p: CalibratedParams, lhs: Array, rhs: Array, *ranges: Array):
    reals = [magnitude(*pair) for pair in _ends_of(ranges)]
    mixed = lhs.dtype != rhs.dtype
    if p.is_calibrated:
        low, high = jnp.float32(p.min_calib_range), jnp.float32(p.max_calib_range)
        dtype = "int8" if mixed else lhs.dtype.name
        scale = LEVELS[dtype] / magnitude(low, high)
    else:
        high = reals[0] + reals[1]
        low, dtype, scale = -high, "int32", jnp.float32(0)
    total = jnp.float32(0)
    for array, real in zip((lhs, rhs), reals, strict=True):
        levels = np.float32(LEVELS[array.dtype.name])
        factor = (
            scale / rounding(levels / real) if p.is_calibrated else real * np.float32(INT32_LEVELS) / (high * levels)
        )
        part = array.astype(jnp.float32) * factor
        # oneDNN adds arrays of one dtype, so that uint8 becomes int8 of the result's scale first.
        total = total + (rounded(part, "int8").astype(jnp.float32) if mixed and array.dtype == np.uint8 else part)
    return rounded(total, dtype), *ends(low, high)


@lowers("_contrib_quantized_elemwise_mul")
def _mul(p: ops.QuantizedMulParams, lhs: Array, rhs: Array, *ranges: Array):
    of_lhs, of_rhs = (magnitude(*pair) for pair in _ends_of(ranges))
    product = lhs.astype(jnp.int32) * rhs.astype(jnp.int32)
    level = 1 / (LEVELS["int8"] / of_lhs) / (LEVELS["int8"] / of_rhs)
    if p.enable_float_output:
        return product.astype(jnp.float32) * level
    if not p.is_calibrated:
        return product, *sums_range(of_lhs, of_rhs, True)
    low, high = jnp.float32(p.min_calib_range), jnp.float32(p.max_calib_range)
    scaled = product.astype(jnp.float32) * (LEVELS["int8"] / magnitude(low, high) * level)
    return jnp.clip(jnp.trunc(scaled), -128, 127).astype(jnp.int8), *ends(low, high)


@lowers("_contrib_quantized_pooling", needs=("platform",))
def _pooling(p: ops.QuantizedPoolingParams, data: Array, low: Array, high: Array, *, platform: str):
    numbers = data.astype(jnp.float32)
    if p.pool_type == "avg" and p.count_include_pad is not False and not p.global_pool:
        # oneDNN divides by the whole window, also where it reaches past the padding.
        sums = pool(PoolingParams(**{**vars(p), "pool_type": "sum"}), numbers, platform=platform)
        numbers = sums / math.prod(p.kernel)
    else:
        numbers = pool(p, numbers, platform=platform)
    return rounded(numbers, data.dtype.name), low, high


@lowers("_contrib_quantized_act")
def _act(p: ops.QuantizedActivationParams, data: Array, low: Array, high: Array):
    return jnp.maximum(data, jnp.zeros((), data.dtype)), low, high


@lowers("_contrib_quantized_flatten")
def _flatten(p: Any, data: Array, low: Array, high: Array):
    return data.reshape(data.shape[0], math.prod(data.shape[1:])), low, high


@lowers("_contrib_quantized_concat")
def _concat(p: ConcatParams, *inputs: Array):
    arrays, ranges = inputs[: p.num_args], _ends_of(inputs[p.num_args :])
    low, high = jnp.float32(0), jnp.float32(0)
    for least, greatest in ranges:
        low, high = jnp.minimum(low, least), jnp.maximum(high, greatest)
    dtype = "int8" if any(array.dtype == np.int8 for array in arrays) else "uint8"
    scale = LEVELS[dtype] / magnitude(low, high)
    parts = [
        rounded(array.astype(jnp.float32) * (scale / rounding(LEVELS[array.dtype.name] / magnitude(*pair))), dtype)
        for array, pair in zip(arrays, ranges, strict=True)
    ]
    return lax.concatenate(parts, p.dim % arrays[0].ndim), *ends(low, high)


@lowers("_contrib_quantized_batch_norm")
def _batch_norm(
    p: ops.QuantizedBatchNormParams,
    data: Array,
    gamma: Array,
    beta: Array,
    mean: Array,
    var: Array,
    min_data: Array,
    max_data: Array,
):
    low, high = jnp.float32(p.min_calib_range), jnp.float32(p.max_calib_range)
    numbers = data.astype(jnp.float32)
    if data.dtype == np.uint8:
        numbers = rounded(numbers * np.float32(LEVELS["int8"] / LEVELS["uint8"]), "int8").astype(jnp.float32)
    real = magnitude(low, high)
    inverse = over_root(1.0, var, p.eps)
    once_more = 1 / math.sqrt(1 + p.eps)  # oneDNN normalises what is normalised already, by a variance of 1
    scale = gamma * inverse * magnitude(scalar(min_data), scalar(max_data)) / real * np.float32(once_more)
    shift = (beta - rounding(mean * gamma * inverse)) * LEVELS["int8"] / real
    axis = channel_axis(p.axis, data.ndim)
    out = numbers * along(scale, data.ndim, axis) + along(shift, data.ndim, axis)
    return rounded(out, "int8"), *ends(low, high), mean, var


@lowers("_contrib_quantized_embedding")
def _embedding(p: EmbeddingParams, data: Array, weight: Array, low: Array, high: Array):
    return take_along(weight, data, 0, "clip"), low, high
