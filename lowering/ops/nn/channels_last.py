"""JAX rules of convolution with channels last, and of its two gradients: by the algorithm that was chosen."""

from __future__ import annotations

from jax import Array

from lowering.convolutions import directions
from lowering.convolutions.applicable import geometry_of
from lowering.core.rules import ByPart, lowers
from symjax_nnvm.ops.nn import channels_last as ops


@lowers("_channels_last_convolution", needs=("algorithm",), by_part=ByPart((0,)))
def _convolution(
    p: ops.ChannelsLastParams, data: Array, weight: Array, bias: Array | None = None, *, algorithm: str
) -> Array:
    out = directions.forward(data, weight, geometry_of(p, data.shape, data.dtype.name), algorithm)
    return out if bias is None else out + bias


@lowers("_backward_channels_last_convolution_data", needs=("algorithm",), by_part=ByPart((0, 2)))
def _data_gradient(p: ops.ChannelsLastGeometry, ograd: Array, weight: Array, data: Array, *, algorithm: str) -> Array:
    return directions.data_gradient(ograd, weight, geometry_of(p, data.shape, data.dtype.name), algorithm)


@lowers("_backward_channels_last_convolution_weight", needs=("algorithm",), by_part=ByPart((0, 1), summed=True))
def _weight_gradient(p: ops.ChannelsLastGeometry, ograd: Array, data: Array, *, algorithm: str) -> Array:
    return directions.weight_gradient(ograd, data, geometry_of(p, data.shape, data.dtype.name), algorithm)
