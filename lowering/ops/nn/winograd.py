"""JAX rules of Winograd's convolution, whose weight is transformed before."""

from __future__ import annotations

from jax import Array

from lowering import convolutions
from lowering.core.rules import ByPart, lowers
from symjax_nnvm.ops.nn import channels_last
from symjax_nnvm.ops.nn import winograd as ops


@lowers("_winograd_weight")
def _weight(p: ops.WinogradWeightParams, weight: Array) -> Array:
    return convolutions.winograd_weight(weight, p.tile)


@lowers("_backward_winograd_weight")
def _weight_adjoint(p: ops.WinogradWeightParams, ograd: Array) -> Array:
    return convolutions.winograd_weight_adjoint(ograd, p.tile)


@lowers("_winograd_convolution", by_part=ByPart((0,)))
def _convolution(p: ops.WinogradParams, data: Array, weight: Array, bias: Array | None = None) -> Array:
    geometry = channels_last.geometry(p, data.shape, data.dtype.name)
    out = convolutions.forward_transformed(data, weight, geometry, p.algorithm)
    return out if bias is None else out + bias
