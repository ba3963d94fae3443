"""JAX rule of the operator that declares how an array is split over a mesh."""

from __future__ import annotations

from typing import Any

from jax import Array

from lowering.core.mesh_parts import laid_out
from lowering.core.rules import lowers
from symjax_nnvm.ops.shape.sharding_constraint import ShardingConstraintParams


@lowers("_sharding_constraint", needs=("mesh",))
def _sharding_constraint(p: ShardingConstraintParams, data: Array, *, mesh: Any) -> Array:
    return laid_out(data, mesh, *p.axes)
