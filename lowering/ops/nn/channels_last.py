"""JAX rules of convolution with channels last, and of its two gradients: by the algorithm that was measured fastest."""

from __future__ import annotations

from jax import Array

from lowering import convolutions
from lowering.registry import ByPart, lowers
from symjax_nnvm.algorithms import choose
from symjax_nnvm.geometry import LIBRARY, Direction, Geometry
from symjax_nnvm.ops.nn import channels_last as ops


@lowers("_channels_last_convolution", needs=("platform", "is_train", "library"), by_part=ByPart((0,)))
def _convolution(
    p: ops.ChannelsLastParams,
    data: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    platform: str,
    is_train: bool,
    library: bool,
) -> Array:
    geometry = ops.geometry(p, data.shape, data.dtype.name)
    algorithm = _chosen("forward", geometry, platform, precise=is_train, library=library)
    out = convolutions.forward(data, weight, geometry, algorithm)
    return out if bias is None else out + bias


@lowers("_backward_channels_last_convolution_data", needs=("platform", "library"), by_part=ByPart((0, 2)))
def _data_gradient(
    p: ops.ChannelsLastGeometry, ograd: Array, weight: Array, data: Array, *, platform: str, library: bool
) -> Array:
    geometry = ops.geometry(p, data.shape, data.dtype.name)
    algorithm = _chosen("data", geometry, platform, precise=True, library=library)
    return convolutions.data_gradient(ograd, weight, geometry, algorithm)


@lowers("_backward_channels_last_convolution_weight", needs=("platform",), by_part=ByPart((0, 1), summed=True))
def _weight_gradient(p: ops.ChannelsLastGeometry, ograd: Array, data: Array, *, platform: str) -> Array:
    geometry = ops.geometry(p, data.shape, data.dtype.name)
    return convolutions.weight_gradient(ograd, data, geometry, choose("weight", geometry, platform))


def _chosen(direction: Direction, geometry: Geometry, platform: str, *, precise: bool, library: bool) -> str:
    algorithm = choose(direction, geometry, platform, precise=precise, library=library)
    if algorithm == LIBRARY and not convolutions.has_library(direction, geometry):
        return choose(direction, geometry, platform, precise=precise)
    return algorithm
