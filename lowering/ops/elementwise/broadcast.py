"""JAX rules of the functions of two broadcast arrays, and of where."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers, lowers_table
from lowering.jax_casts import number_as
from lowering.ops.elementwise.binary import FUNCTIONS, Function
from symjax_nnvm.ops.elementwise import broadcast as ops


def _broadcast(function: Function) -> Function:
    return lambda lhs, rhs: function(*jnp.broadcast_arrays(lhs, rhs))


def _where(condition: Array, x: Array, y: Array) -> Array:
    holds = condition != lax.full_like(condition, 0)
    if holds.ndim < x.ndim:
        holds = lax.broadcast_in_dim(holds, x.shape, (0,))
    return lax.select(holds, x, y)


lowers_table({f"broadcast_{name}": _broadcast(function) for name, function in FUNCTIONS.items()})


def _chosen(condition: Array, x: Array, y: Array) -> Array:
    return lax.select(*jnp.broadcast_arrays(condition != lax.full_like(condition, 0), x, y))


lowers_table({"where": _where, "_npi_where": _chosen})


@lowers("_npi_where_lscalar")
def _where_lscalar(p: ops.WhereScalarParams, condition: Array, y: Array) -> Array:
    return _chosen(condition, jnp.asarray(number_as(p.scalar, y.dtype)), y)


@lowers("_npi_where_rscalar")
def _where_rscalar(p: ops.WhereScalarParams, condition: Array, x: Array) -> Array:
    return _chosen(condition, x, jnp.asarray(number_as(p.scalar, x.dtype)))


@lowers("_npi_where_scalar2")
def _where_scalar2(p: ops.WhereScalar2Params, condition: Array) -> Array:
    return _chosen(condition, jnp.float32(p.x), jnp.float32(p.y))
