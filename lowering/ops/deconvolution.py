"""JAX rules of deconvolution and of its two gradients: one XLA convolution each."""

from __future__ import annotations

import jax

from lowering.ops.convolution import convolve, data_gradient, weight_gradient, with_bias
from lowering.registry import lowers
from symjax_nnvm.ops import deconvolution as ops

Array = jax.Array


@lowers("Deconvolution")
def _deconvolution(p: ops.DeconvolutionParams, data: Array, weight: Array, bias: Array | None = None) -> Array:
    geometry, shape = ops.transposed(p, data.shape)
    return with_bias(p, data_gradient(geometry, data, weight, shape), bias)


@lowers("_backward_Deconvolution_data")
def _data_gradient(p: ops.DeconvolutionParams, ograd: Array, weight: Array, data: Array) -> Array:
    geometry, _ = ops.transposed(p, data.shape)
    return convolve(geometry, ograd, weight)


@lowers("_backward_Deconvolution_weight")
def _weight_gradient(p: ops.DeconvolutionParams, ograd: Array, data: Array) -> Array:
    geometry, _ = ops.transposed(p, data.shape)
    return weight_gradient(geometry, data, ograd)
