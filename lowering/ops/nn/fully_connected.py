"""JAX rules of FullyConnected."""

from __future__ import annotations

import math

from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.nn import fully_connected as ops


@lowers("FullyConnected")
def _fully_connected(p: ops.FullyConnectedParams, data: Array, weight: Array, bias: Array | None = None) -> Array:
    if p.flatten:
        data = data.reshape(data.shape[0], math.prod(data.shape[1:]))
    out = lax.dot_general(data, weight, (((data.ndim - 1,), (1,)), ((), ())))
    return out if bias is None else out + bias
