"""JAX rules of gather_nd and scatter_nd."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from lowering.core.rules import lowers
from lowering.ops.indexing.take import CLIP, Array, integers
from symjax_nnvm.ops.indexing import gather_nd as ops


def nd_places(indices: Array, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """One array of places for each row of indices; negative ones count from the end."""
    rows = integers(indices)
    return tuple(jnp.where(rows[i] < 0, rows[i] + shape[i], rows[i]) for i in range(rows.shape[0]))


@lowers("gather_nd")
def _gather_nd(p: Any, data: Array, indices: Array) -> Array:
    return data.at[nd_places(indices, data.shape)].get(**CLIP)


@lowers("_backward_gather_nd")
def _backward_gather_nd(p: Any, ograd: Array, data: Array, indices: Array) -> Array:
    return jnp.zeros(data.shape, ograd.dtype).at[nd_places(indices, data.shape)].add(ograd, **CLIP)


@lowers("scatter_nd")
def _scatter_nd(p: ops.ScatterNDParams, data: Array, indices: Array) -> Array:
    return jnp.zeros(p.shape, data.dtype).at[nd_places(indices, p.shape)].set(data, **CLIP)
