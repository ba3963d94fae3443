"""JAX rules of what MXNet fuses for oneDNN."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.quantization.layers import flattened
from lowering.ops.quantization.levels import (
    accumulated,
    added_once,
    along,
    convolve,
    dot,
    ends,
    magnitude,
    over_root,
    rounded,
    rounded_away,
    rounding,
    scalar,
    scale_of,
    sums_range,
)
from symjax_nnvm.ops.quantization import fused as ops

_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: jnp.maximum(x, 0),
    "sigmoid": jax.nn.sigmoid,
    "softrelu": lambda x: jnp.logaddexp(x, 0.0),
    "softsign": lambda x: x / (1 + jnp.abs(x)),
    "tanh": jnp.tanh,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "square": jnp.square,
    "sqrt": jnp.sqrt,
    "exp": jnp.exp,
    "abs": jnp.abs,
}


def _of(function: ops.FusedFunction | None, x: Array) -> Array:
    """A function of each element."""
    if function is None:
        return x
    if function.op == "clip":
        return jnp.clip(x, 0, function.params.a_max)
    if function.op == "LeakyReLU" and function.kind in ("leaky", "elu"):
        slope = function.params.slope
        return jnp.where(x > 0, x, slope * (x if function.kind == "leaky" else jnp.expm1(x)))
    return _FUNCTIONS[function.kind](x)


def _levels_of_rows(weight: Array, bias: Array | None, data_scale: Array) -> Array:
    """Levels for a unit of each row of a weight, with which a bias does not overflow an int32."""
    scale = scale_of("int8", jnp.max(jnp.abs(weight), axis=tuple(range(1, weight.ndim))))
    if bias is None:
        return scale
    most = jnp.where(bias > 0, np.float32(2.0**31), np.float32(-(2.0**31))) / 2
    return jnp.where(
        bias == 0, scale, jnp.minimum(scale, rounding(most / jnp.where(bias == 0, 1.0, bias)) / data_scale)
    )


def _quantized(weight: Array, bias: Array | None, scale: Array, data_scale: Array) -> tuple[Array, Array | None]:
    """Weight and bias of floats as levels."""
    levels = rounded(weight * along(scale, weight.ndim, 0), "int8")
    return levels, None if bias is None else rounded(bias * (scale * data_scale), "int32")


# -- convolution -----------------------------------------------------------------------------------------------------


def _folded(p: ops.FusedConvolution, arrays: dict[str, Array]) -> tuple[Array, Array | None]:
    """Weight and bias of the convolution, batch normalisation in them."""
    weight, bias = arrays["weight"], arrays.get("bias")
    if p.batch_norm is None:
        return weight, bias
    gamma = 1.0 if p.batch_norm.fix_gamma else arrays["gamma"]
    alpha = over_root(gamma, arrays["var"], p.batch_norm.eps)
    shift = -arrays["mean"] if bias is None else bias - arrays["mean"]
    return weight * along(alpha, weight.ndim, 0), arrays["beta"] + rounding(alpha * shift)


@lowers("_sg_mkldnn_conv")
def _convolution(p: ops.FusedConvolution, *inputs: Array):
    arrays = dict(zip(p.inputs, inputs, strict=True))
    states = [arrays[name] for name in ("mean", "var") if name in arrays]
    weight, bias = _folded(p, arrays)
    geometry, data = p.convolution, arrays["data"]
    axis, ndim = geometry.channel_axis, data.ndim
    if not p.node.quantized:
        spec = (0, axis, *geometry.spatial_axes)
        out = lax.conv_general_dilated(
            data,
            weight,
            window_strides=[stride for _, stride, _, _ in geometry.steps],
            padding=[(pad, pad) for *_, pad in geometry.steps],
            rhs_dilation=[dilation for _, _, dilation, _ in geometry.steps],
            dimension_numbers=lax.ConvDimensionNumbers(spec, spec, spec),
            feature_group_count=geometry.num_group,
        )
        out = _of(p.act, out if bias is None else out + along(bias, ndim, axis))
        return _of(p.postsum_act, out + arrays["sum"] if p.node.with_sum else out), *states
    of_data = [scalar(arrays[f"data_{end}"]) for end in ("min", "max")]
    data_scale = scale_of(data.dtype, *of_data)
    if p.node.min_calib_range is not None and p.node.max_calib_range is not None:
        scale = _levels_of_rows(weight, bias, data_scale)
        low, high = ends(p.node.min_calib_range, p.node.max_calib_range)
        out_scale = scale_of(p.dtype, scalar(low), scalar(high))
        requantize: Array | float = along(rounding(out_scale / data_scale) / scale, ndim, axis)
    else:
        least, greatest = jnp.min(weight), jnp.max(weight)
        scale = scale_of("int8", least, greatest)
        low, high = sums_range(magnitude(*of_data), magnitude(least, greatest), data.dtype == np.int8)
        out_scale, requantize = data_scale * scale, 1.0
    weight, bias = _quantized(weight, bias, scale, data_scale)
    sums = accumulated(convolve(geometry, data, weight), bias, axis)
    if p.dtype == "int32" and not p.node.with_sum and p.act is None:
        return sums, low, high, *states
    out = sums.astype(jnp.float32) * requantize
    if p.act is not None and (p.act.op != "clip" or p.node.with_sum):  # the end of the range cuts off what clip does
        out = _of(p.act, out)
    if p.node.with_sum:
        summand = arrays["sum"]
        sum_scale = scale_of(summand.dtype, *(scalar(arrays[f"sum_{end}"]) for end in ("min", "max")))
        out = _of(p.postsum_act, added_once(out, summand.astype(jnp.float32), out_scale / sum_scale))
        if p.dtype != "int32":  # oneDNN writes the result over the summand, as numbers of its dtype
            return lax.bitcast_convert_type(rounded(out, summand.dtype.name), p.dtype), low, high, *states
    return rounded(out, p.dtype), low, high, *states


# -- dense -----------------------------------------------------------------------------------------------------------


@lowers("_sg_mkldnn_fully_connected")
def _dense(p: ops.FusedDense, *inputs: Array):
    arrays = dict(zip(p.inputs, inputs, strict=True))
    data, weight, bias = flattened(p.dense, arrays["data"]), arrays["weight"], arrays.get("bias")
    if not p.node.quantized:
        out = lax.dot_general(data, weight, (((data.ndim - 1,), (1,)), ((), ())))
        return _of(p.function, out if bias is None else out + bias)

    def real(name: str) -> Array:
        return magnitude(scalar(arrays[f"min_{name}"]), scalar(arrays[f"max_{name}"]))

    data_scale = scale_of(data.dtype, real("data"))
    if p.is_channel_wise:
        scale = _levels_of_rows(weight, bias, data_scale)
        weight, bias = _quantized(weight, bias, scale, data_scale)
    else:
        scale = scale_of("int8", real("weight"))
        if bias is not None:
            weight, bias, scale = _rescaled(weight, bias, scale, data_scale, real("bias"))
    sums = accumulated(dot(data, weight), bias, -1)
    levels = rounding(1 / data_scale) / scale
    if p.node.enable_float_output:
        return _of(p.function, sums.astype(jnp.float32) * levels)
    if p.node.min_calib_range is None or p.node.max_calib_range is None:
        out = sums if p.function is None else rounded(_of(p.function, sums.astype(jnp.float32)), "int32")
        return out, *sums_range(real("data"), real("weight"), data.dtype == np.int8)
    low, high = ends(p.node.min_calib_range, p.node.max_calib_range)
    out_scale = scale_of(p.dtype, scalar(low), scalar(high))
    if p.function is None:
        out = sums.astype(jnp.float32) * (rounding(out_scale / data_scale) / scale)
    else:
        out = _of(p.function, sums.astype(jnp.float32) * levels) * out_scale
    return rounded(out, p.dtype), low, high


def _rescaled(
    weight: Array, bias: Array, scale: Array, data_scale: Array, bias_real: Array
) -> tuple[Array, Array, Array]:
    """int8 weights and biases of ranges of their own, and the weights' scale: where a bias overflowed an int32 of the
    products' scale, weights give way."""
    bias_scale = scale_of("int8", bias_real)
    levels = data_scale * scale / bias_scale
    most = jnp.where(bias_real == 0, levels, (2**31 - 1) // 2 / bias_real / bias_scale)
    factor = jnp.where(levels > most, most * bias_scale / data_scale / scale, 1.0)
    weight = rounded_away(weight.astype(jnp.float32) * factor).astype(jnp.int8)
    bias = rounded_away(bias.astype(jnp.float32) * jnp.minimum(levels, most)).astype(jnp.int32)
    return weight, bias, scale * factor


# -- attention -------------------------------------------------------------------------------------------------------


def _parts(p: ops.FusedAttentionParams, data: Array, part: int) -> Array:
    """Queries, keys or values, (t, n, h·3·d) → (n·h, t, d), as floats, which hold 8 bits exactly."""
    t, n, features = data.shape
    split = data.reshape(t, n * p.heads, 3, features // (3 * p.heads))
    return jnp.moveaxis(lax.index_in_dim(split, part, 2, keepdims=False), 0, 1).astype(jnp.float32)


def _finished(
    p: ops.FusedAttentionParams, sums: Array, scales: Sequence[Array], factor: float, limits: tuple[Array, Array] | None
):
    """Sums of products in the node's form: floats, levels of the calibrated range, or int32."""
    if not p.quantized:
        return sums * factor
    levels = 1 / (scales[0] * scales[1])
    if p.min_calib_range is not None and p.max_calib_range is not None:
        low, high = ends(p.min_calib_range, p.max_calib_range)
        out_scale = scale_of("int8", scalar(low), scalar(high))
        return rounded(sums * (out_scale * levels * factor), "int8"), low, high
    if p.enable_float_output:
        return sums * (levels * factor)
    assert limits is not None
    return rounded(sums * factor, "int32"), *limits


@lowers("_sg_mkldnn_selfatt_qk")
def _scores(p: ops.FusedAttentionParams, data: Array, *ranges: Array):
    queries, keys = _parts(p, data, 0), _parts(p, data, 1)
    sums = jnp.einsum("bid,bjd->bij", queries, keys)
    scales, limits = [], None
    if p.quantized:
        real = magnitude(*map(scalar, ranges))
        scales, limits = [scale_of("int8", real)] * 2, sums_range(real, real, True)
    return _finished(p, sums, scales, 1 / float(np.sqrt(np.float32(queries.shape[-1]))), limits)


@lowers("_sg_mkldnn_selfatt_valatt")
def _mixture(p: ops.FusedAttentionParams, data: Array, attention: Array, *ranges: Array):
    values = _parts(p, data, 2)
    t, n = data.shape[:2]
    mixed = jnp.einsum("bij,bjd->ibd", attention.astype(jnp.float32), values)
    scales, limits = [], None
    if p.quantized:
        of_data, of_attention = magnitude(*map(scalar, ranges[:2])), magnitude(*map(scalar, ranges[2:]))
        scales = [scale_of("int8", of_data), scale_of("uint8", of_attention)]
        limits = sums_range(of_data, of_attention, False)
    return _finished(p, mixed.reshape(t, n, -1), scales, 1.0, limits)
