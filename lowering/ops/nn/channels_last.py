"""JAX rules of convolution with channels last, and of its two gradients: by the algorithm that was measured fastest."""

from __future__ import annotations

from jax import Array

from lowering import convolutions
from lowering.registry import ByPart, lowers
from symjax_nnvm.algorithms import choose
from symjax_nnvm.ops.nn import channels_last as ops


@lowers("_channels_last_convolution", needs=("platform", "is_train"), by_part=ByPart((0,)))
def _convolution(
    p: ops.ChannelsLastParams,
    data: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    platform: str,
    is_train: bool,
) -> Array:
    geometry = ops.geometry(p, data.shape, data.dtype.name)
    algorithm = choose("forward", geometry, platform, precise=is_train)
    out = convolutions.forward(data, weight, geometry, algorithm)
    return out if bias is None else out + bias


@lowers("_backward_channels_last_convolution_data", needs=("platform",), by_part=ByPart((0, 2)))
def _data_gradient(p: ops.ChannelsLastGeometry, ograd: Array, weight: Array, data: Array, *, platform: str) -> Array:
    geometry = ops.geometry(p, data.shape, data.dtype.name)
    algorithm = choose("data", geometry, platform, precise=True)
    return convolutions.data_gradient(ograd, weight, geometry, algorithm)


@lowers("_backward_channels_last_convolution_weight", needs=("platform",), by_part=ByPart((0, 1), summed=True))
def _weight_gradient(p: ops.ChannelsLastGeometry, ograd: Array, data: Array, *, platform: str) -> Array:
    geometry = ops.geometry(p, data.shape, data.dtype.name)
    return convolutions.weight_gradient(ograd, data, geometry, choose("weight", geometry, platform))
