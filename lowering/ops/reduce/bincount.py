"""The JAX rule of bincount."""

from __future__ import annotations

import jax.core
import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.errors import LoweringError
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ops.reduce import bincount as ops


@lowers("_npi_bincount", needs=("attrs",))
def _bincount(p: ops.BincountParams, data: Array, weights: Array | None = None, *, attrs: NodeAttrs) -> Array:
    if isinstance(data, jax.core.Tracer):
        raise LoweringError(
            "The shape of the result depends on the values of the data, but XLA must know shapes when it compiles",
            op=attrs.op,
            node=attrs.name,
            input="data",
            expected="data whose values are known: outside jax.jit",
            got=f"a traced {data.dtype} array of shape {data.shape}",
            fix="Where the largest number is known, sum one_hot of the data over its first axis.",
        )
    numbers = np.asarray(data)
    if numbers.size and numbers.min() < 0:
        problem = "input should be nonnegative number"
        raise LoweringError(problem, op=attrs.op, node=attrs.name, input="data", got=f"{numbers.min()}")
    length = max(p.minlength, int(numbers.max()) + 1 if numbers.size else 0)
    each = jnp.ones(numbers.shape, np.int32) if weights is None else weights
    return jnp.zeros(length, each.dtype).at[numbers].add(each)
