"""JAX rules of quantisation and of its inverse."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from lowering.ops.quantization.levels import INT32_LEVELS, ends, magnitude, rounded, scalar
from symjax_nnvm.ops.quantization import quantize as ops
from symjax_nnvm.ops.quantization.ranges import LEVELS, CalibratedParams

_GREATEST = {"int8": 127, "uint8": 255}


def _range_of(p: CalibratedParams, data: Array) -> tuple[Array, Array]:
    """The calibrated range, else that of data."""
    if p.min_calib_range is not None and p.max_calib_range is not None:
        return jnp.float32(p.min_calib_range), jnp.float32(p.max_calib_range)
    return jnp.min(data), jnp.max(data)


def _as_levels(data: Array, greatest: float, low: Array, high: Array, dtype: str) -> tuple[Array, Array, Array]:
    real = magnitude(low, high)
    bounds = ends(-real, real) if dtype == "int8" else ends(low, high)
    return rounded(data * (greatest / real), dtype), *bounds


@lowers("_contrib_quantize")
def _quantize(p: ops.QuantizeParams, data: Array, low: Array, high: Array):
    return _as_levels(data, _GREATEST[p.out_type], scalar(low), scalar(high), p.out_type)


@lowers("_contrib_quantize_v2")
def _quantize_v2(p: ops.QuantizeV2Params, data: Array):
    if data.dtype == np.float32:
        return _as_levels(data, LEVELS[p.dtype], *_range_of(p, data), p.dtype)
    least = 0.0 if p.dtype == "uint8" else -LEVELS[p.dtype]
    low, high = (p.min_calib_range, p.max_calib_range) if p.is_calibrated else (least, LEVELS[p.dtype])
    return data, *ends(low or 0.0, high or 0.0)


@lowers("_contrib_quantize_asym")
def _quantize_asym(p: CalibratedParams, data: Array):
    if data.dtype == np.uint8:
        return data, *ends(1.0, 0.0)
    if data.dtype == np.int8:
        return (data.astype(jnp.int32) + 128).astype(jnp.uint8), *ends(1.0, 128.0)
    low, high = _range_of(p, data)
    scale = 255 / (high - low)
    shift = 255 - high * scale
    return rounded(data * scale + shift, "uint8"), *ends(scale, shift)


@lowers("_contrib_dequantize")
def _dequantize(p: ops.DequantizeParams, data: Array, low: Array, high: Array) -> Array:
    return data.astype(jnp.float32) * (magnitude(scalar(low), scalar(high)) / LEVELS[data.dtype.name])


@lowers("_contrib_requantize")
def _requantize(p: ops.QuantizeV2Params, data: Array, low: Array, high: Array):
    numbers = data.astype(jnp.float32)
    level = magnitude(scalar(low), scalar(high)) / np.float32(INT32_LEVELS)
    calibrated = p.min_calib_range is not None and p.max_calib_range is not None
    real = magnitude(*_range_of(p, numbers)) * (1.0 if calibrated else level)
    bounds = ends(-real, real) if p.dtype == "int8" else ends(0.0, real)
    return rounded(numbers * (level * (_GREATEST[p.dtype] / real)), p.dtype), *bounds
