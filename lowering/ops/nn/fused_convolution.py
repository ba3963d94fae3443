"""JAX rules of convolutions with what follows them: by oneDNN, where it computes them, else by any algorithm."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array

from lowering import convolutions
from lowering.convolutions import onednn
from lowering.ops.nn.activation import gelu
from lowering.registry import lowers
from symjax_nnvm.algorithms import choose
from symjax_nnvm.geometry import Geometry
from symjax_nnvm.ops.nn import channels_last
from symjax_nnvm.ops.nn import fused_convolution as ops
from symjax_nnvm.ops.nn.fused_fully_connected import FusedFullyConnectedParams


@lowers("_blocked_weight")
def _weight(p: ops.BlockedWeightParams, weight: Array) -> Array:
    return ops.blocks_of(weight.shape, p.num_group, p.block).lay(weight, jnp).ravel()


@lowers("_fused_convolution", needs=("platform",))
def _convolution(p: ops.FusedConvolutionParams, data: Array, weight: Array, *rest: Array, platform: str) -> Array:
    geometry = channels_last.geometry(p, data.shape, data.dtype.name)
    if calls_library(p, geometry, platform, (data, weight, *rest)):
        return onednn.convolve(data, weight, geometry, p.epilogue, rest)
    plain = p.blocks.unlay(weight.reshape(p.blocks.shape)) if p.block else weight
    out = convolutions.forward(data, plain, geometry, choose("forward", geometry, platform))
    for operand in rest:
        out = out + operand
    return activated(out, p.act_type)


def calls_library(
    p: ops.FusedConvolutionParams | FusedFullyConnectedParams,
    geometry: Geometry,
    platform: str,
    arrays: Sequence[Array],
) -> bool:
    """Whether oneDNN computes it: weights lie as it wants them here, and all arrays have the dtype that it was asked
    about. With others, which a file may have, it would end the process."""
    alike = all(array.dtype.name == geometry.dtype for array in arrays)
    return p.block > 0 and platform == "cpu" and alike and onednn.here()(geometry, p.epilogue) == p.block


def activated(x: Array, act_type: str) -> Array:
    """What an epilogue's activation makes of the result."""
    if act_type == "gelu":
        return gelu(x)
    return jnp.clip(x, 0, 6 if act_type == "relu6" else None) if act_type else x
