"""JAX rules of convolutions with what follows them: by oneDNN, where it computes them, else by any algorithm."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from lowering import convolutions
from lowering.convolutions import onednn
from lowering.core.rules import lowers
from lowering.ops.nn.activation import gelu
from symjax_nnvm.geometry import LIBRARY, XLA
from symjax_nnvm.ops.nn import channels_last
from symjax_nnvm.ops.nn import fused_convolution as ops


@lowers("_blocked_weight")
def _weight(p: ops.BlockedWeightParams, weight: Array) -> Array:
    return ops.blocks_of(weight.shape, p.num_group, p.block).lay(weight, jnp).ravel()


@lowers("_fused_convolution", needs=("algorithm",))
def _convolution(p: ops.FusedConvolutionParams, data: Array, weight: Array, *rest: Array, algorithm: str) -> Array:
    geometry = channels_last.geometry(p, data.shape, data.dtype.name)
    if algorithm == LIBRARY and are_alike(data, weight, *rest):
        return onednn.convolve(data, weight, geometry, p.epilogue, rest)
    plain = p.blocks.unlay(weight.reshape(p.blocks.shape)) if p.block else weight
    out = convolutions.forward(data, plain, geometry, XLA if algorithm == LIBRARY else algorithm)
    for operand in rest:
        out = out + operand
    return activated(out, p.act_type)


def are_alike(*arrays: Array) -> bool:
    """Whether all arrays have one dtype: of others, which a file may have, oneDNN would end the process."""
    return len({array.dtype for array in arrays}) == 1


def activated(x: Array, act_type: str) -> Array:
    """What an epilogue's activation makes of the result."""
    if act_type == "gelu":
        return gelu(x)
    return jnp.clip(x, 0, 6 if act_type == "relu6" else None) if act_type else x
