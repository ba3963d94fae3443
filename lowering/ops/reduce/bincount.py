"""The JAX rule of bincount."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from lowering.core.rules import lowers
from lowering.ops.indexing.boolean_mask import values_of
from symjax_nnvm.errors import LoweringError
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ops.reduce import bincount as ops


@lowers("_npi_bincount", needs=("attrs",), by_values=lambda p: True)
def _bincount(p: ops.BincountParams, data: Array, weights: Array | None = None, *, attrs: NodeAttrs) -> Array:
    fix = "Where the largest number is known, sum one_hot of the data over its first axis."
    numbers = values_of(data, attrs, "data", fix)
    if numbers.size and numbers.min() < 0:
        problem = "input should be nonnegative number"
        raise LoweringError(problem, op=attrs.op, node=attrs.name, input="data", got=f"{numbers.min()}")
    length = max(p.minlength, int(numbers.max()) + 1 if numbers.size else 0)
    amounts = jnp.ones(numbers.shape, data.dtype) if weights is None else weights
    return jnp.zeros(length, amounts.dtype).at[numbers].add(amounts)
