"""JAX rules of the functions of two broadcast arrays, and of where."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers_table
from lowering.ops.elementwise.binary import FUNCTIONS, Function


def _broadcast(function: Function) -> Function:
    return lambda lhs, rhs: function(*jnp.broadcast_arrays(lhs, rhs))


def _where(condition: Array, x: Array, y: Array) -> Array:
    holds = condition != lax.full_like(condition, 0)
    if holds.ndim < x.ndim:
        holds = lax.broadcast_in_dim(holds, x.shape, (0,))
    return lax.select(holds, x, y)


lowers_table({f"broadcast_{name}": _broadcast(function) for name, function in FUNCTIONS.items()})
lowers_table({"where": _where})
