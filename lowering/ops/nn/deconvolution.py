"""JAX rules of deconvolution and of its two gradients: one XLA convolution each."""

from __future__ import annotations

from jax import Array

from lowering.ops.nn.convolution import convolve, data_gradient, weight_gradient, with_bias
from lowering.registry import ByPart, lowers
from symjax_nnvm.ops.nn import deconvolution as ops


@lowers("Deconvolution", needs=("platform",))
def _deconvolution(
    p: ops.DeconvolutionParams, data: Array, weight: Array, bias: Array | None = None, *, platform: str
) -> Array:
    geometry, shape = ops.transposed(p, data.shape)
    return with_bias(p, data_gradient(geometry, data, weight, shape, platform), bias)


@lowers("_backward_Deconvolution_data", needs=("platform",))
def _data_gradient(p: ops.DeconvolutionParams, ograd: Array, weight: Array, data: Array, *, platform: str) -> Array:
    geometry, _ = ops.transposed(p, data.shape)
    return convolve(geometry, ograd, weight, platform)


@lowers("_backward_Deconvolution_weight", needs=("platform",), by_part=ByPart((0, 1), summed=True))
def _weight_gradient(p: ops.DeconvolutionParams, ograd: Array, data: Array, *, platform: str) -> Array:
    geometry, _ = ops.transposed(p, data.shape)
    return weight_gradient(geometry, data, ograd, platform=platform)
