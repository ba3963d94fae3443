"""JAX rule of FullyConnected with what follows it: by oneDNN, where it computes it, else by XLA."""

from __future__ import annotations

import math

from jax import Array, lax

from lowering.convolutions import onednn
from lowering.core.rules import lowers
from lowering.ops.nn.fused_convolution import activated, are_alike
from symjax_nnvm.geometry import LIBRARY
from symjax_nnvm.ops.nn import fused_fully_connected as ops


@lowers("_fused_fully_connected", needs=("algorithm",))
def _fully_connected(
    p: ops.FusedFullyConnectedParams, data: Array, weight: Array, *rest: Array, algorithm: str
) -> Array:
    leading = data.shape[:1] if p.flatten else data.shape[:-1]
    geometry = ops.product_geometry(p, data.shape, data.dtype.name)
    rows = data.reshape(math.prod(leading), geometry.channels)
    if algorithm == LIBRARY and are_alike(data, weight, *rest):
        operands = [a.reshape(1, -1, p.num_hidden) if a.ndim > 1 else a for a in rest]
        out = onednn.convolve(rows[None], weight, geometry, p.epilogue, operands)
        return out.reshape(*leading, p.num_hidden)
    if p.block:
        out = rows @ p.blocks.unlay(weight.reshape(p.blocks.shape))[0]
    else:
        out = lax.dot_general(rows, weight, (((1,), (1,)), ((), ())))
    out = out.reshape(*leading, p.num_hidden)
    for operand in rest:
        out = out + operand
    return activated(out, p.act_type)
