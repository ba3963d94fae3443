"""JAX rules of the operators that MXNet made for sparse storage, on dense arrays."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from lowering.core.rules import FLowering, lowers, lowers_table
from lowering.ops.elementwise.unary import is_integer
from lowering.ops.wide import wide
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ops.reduce.reduction import ReduceParams

# The package imports the families of these rules before this one.
for _name, _like in (
    ("_scatter_plus_scalar", "_plus_scalar"),
    ("_scatter_minus_scalar", "_minus_scalar"),
    ("_scatter_elemwise_div", "elemwise_div"),
    ("_contrib_SparseEmbedding", "Embedding"),
):
    Op.get(_name).set_attr("FLowering", FLowering[Op.get(_like)])


def _retain(data: Array, indices: Array) -> Array:
    """Map data (n, …), indices (k,) of any dtype → (n, …)."""
    rows = data.shape[0]
    numbers = indices.astype("int32").reshape(-1)
    # Negative numbers would count from the end; past the end they are dropped.
    mask = jnp.zeros(rows, bool).at[jnp.where(numbers < 0, rows, numbers)].set(True, mode="drop")
    return jnp.where(mask.reshape(rows, *(1,) * (data.ndim - 1)), data, jnp.zeros_like(data))


_sum = FLowering[Op.get("sum")].rule


@lowers("_square_sum")
def _square_sum(p: ReduceParams, data: Array) -> Array:
    x = data if is_integer(data) else wide(data)
    return _sum(p, jnp.square(x)).astype(data.dtype)


lowers_table({"cast_storage": lambda data: data, "_sparse_retain": _retain})
