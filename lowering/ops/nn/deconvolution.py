"""JAX rules of deconvolution and of its two gradients: one XLA convolution each."""

from __future__ import annotations

from jax import Array

from lowering.core.rules import ByPart, lowers
from lowering.ops.nn.convolution import convolve, data_gradient, weight_gradient, with_bias
from symjax_nnvm.ops.nn import deconvolution as ops


@lowers("Deconvolution", needs=("algorithm",))
def _deconvolution(
    p: ops.DeconvolutionParams, data: Array, weight: Array, bias: Array | None = None, *, algorithm: str
) -> Array:
    geometry, shape = ops.transposed(p, data.shape)
    return with_bias(p, data_gradient(geometry, data, weight, shape, algorithm), bias)


@lowers("_backward_Deconvolution_data", needs=("algorithm",))
def _data_gradient(p: ops.DeconvolutionParams, ograd: Array, weight: Array, data: Array, *, algorithm: str) -> Array:
    geometry, _ = ops.transposed(p, data.shape)
    return convolve(geometry, ograd, weight, algorithm)


@lowers("_backward_Deconvolution_weight", needs=("algorithm",), by_part=ByPart((0, 1), summed=True))
def _weight_gradient(p: ops.DeconvolutionParams, ograd: Array, data: Array, *, algorithm: str) -> Array:
    geometry, _ = ops.transposed(p, data.shape)
    return weight_gradient(geometry, data, ograd, algorithm=algorithm)
