"""JAX rules of tile and repeat."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.shape import tile as ops


@lowers("tile")
def _tile(p: ops.TileParams, data: Array) -> Array:
    return jnp.tile(data, p.reps)


@lowers("repeat")
def _repeat(p: ops.RepeatParams, data: Array) -> Array:
    if p.repeats == 0:
        return jnp.zeros((0,), data.dtype)
    # jnp.repeat gathers; a broadcast to a new axis does not.
    if p.axis is None:
        data, axis = data.reshape(-1), 0
    else:
        axis = p.axis % data.ndim
    shape = data.shape
    spread = lax.broadcast_in_dim(
        data, (*shape[: axis + 1], p.repeats, *shape[axis + 1 :]), [i + (i > axis) for i in range(data.ndim)]
    )
    return spread.reshape(*shape[:axis], shape[axis] * p.repeats, *shape[axis + 1 :])
