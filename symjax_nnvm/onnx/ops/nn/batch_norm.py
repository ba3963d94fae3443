"""ONNX forms of batch normalisation as in inference."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.ir.rules.axes import normal_axis
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import batch_norm as ops


def inverse_root(g: Builder, variance: Tensor, eps: float) -> Tensor:
    """1 / √(variance + ε)."""
    return g.op("Reciprocal", g.op("Sqrt", g.op("Add", variance, eps)))


def normalise(g: Builder, p: ops.BatchNormLike, data: Tensor, *vectors: Tensor) -> Tensor:
    """Data normalised with moving statistics. vectors: gamma, beta, moving mean, moving variance."""
    gamma, beta, mean, variance = vectors
    axis = normal_axis(p.axis, data.ndim)
    if p.fix_gamma:
        gamma = g.constant(np.ones(g.static(gamma)), gamma.dtype)
    if axis == 1:
        return g.op("BatchNormalization", data, gamma, beta, mean, variance, epsilon=p.eps)
    factor = g.op("Mul", gamma, inverse_root(g, variance, p.eps))
    shift = g.op("Sub", beta, g.op("Mul", mean, factor))
    return scale_shift(g, data, factor, shift, axis)


def scale_shift(g: Builder, data: Tensor, scale: Tensor, shift: Tensor, axis: int) -> Tensor:
    """Data times a vector along an axis, plus another, in the vectors' dtype."""
    scale, shift = (g.along(vector, axis, data.ndim) for vector in (scale, shift))
    return g.cast(g.op("Add", g.op("Mul", g.cast(data, scale.dtype), scale), shift), data.dtype)


@onnx_form("BatchNorm")
def _batch_norm(g: Builder, p: ops.BatchNormParams, *inputs: Tensor) -> list[Tensor]:
    out = normalise(g, p, *inputs)
    return [out, inputs[3], inverse_root(g, inputs[4], p.eps)] if p.output_mean_var else [out]


@onnx_form("_channels_like")
def _channels_like(g: Builder, p: ops.ChannelParams, data: Tensor, like: Tensor) -> Tensor:
    return g.along(data, ops.channel_axis(p.axis, like.ndim), like.ndim)


@onnx_form("_scale_shift")
def _scale_shift(g: Builder, p: Any, data: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return scale_shift(g, data, scale, shift, normal_axis(p.axis, data.ndim))
