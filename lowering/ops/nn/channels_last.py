"""JAX rules of convolution with channels last, and of its two gradients: by the algorithm that was chosen."""

from __future__ import annotations

from jax import Array

from lowering import convolutions
from lowering.core.rules import ByPart, lowers
from symjax_nnvm.ops.nn import channels_last as ops


@lowers("_channels_last_convolution", needs=("algorithm",), by_part=ByPart((0,)))
def _convolution(
    p: ops.ChannelsLastParams, data: Array, weight: Array, bias: Array | None = None, *, algorithm: str
) -> Array:
    out = convolutions.forward(data, weight, ops.geometry(p, data.shape, data.dtype.name), algorithm)
    return out if bias is None else out + bias


@lowers("_backward_channels_last_convolution_data", needs=("algorithm",), by_part=ByPart((0, 2)))
def _data_gradient(p: ops.ChannelsLastGeometry, ograd: Array, weight: Array, data: Array, *, algorithm: str) -> Array:
    return convolutions.data_gradient(ograd, weight, ops.geometry(p, data.shape, data.dtype.name), algorithm)


@lowers("_backward_channels_last_convolution_weight", needs=("algorithm",), by_part=ByPart((0, 1), summed=True))
def _weight_gradient(p: ops.ChannelsLastGeometry, ograd: Array, data: Array, *, algorithm: str) -> Array:
    return convolutions.weight_gradient(ograd, data, ops.geometry(p, data.shape, data.dtype.name), algorithm)
