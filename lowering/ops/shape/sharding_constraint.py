"""JAX rule of the operator that says how an array is split over a mesh."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from lowering.registry import lowers
from symjax_nnvm.ops.shape.sharding_constraint import ShardingConstraintParams


@lowers("_sharding_constraint", needs=("mesh",))
def _sharding_constraint(p: ShardingConstraintParams, data: jax.Array, *, mesh: Any) -> jax.Array:
    """The data; XLA splits it so. Where axes are manual, inside `jax.shard_map`, the caller has split it already."""
    if mesh is None:
        return data
    around = jax.sharding.get_abstract_mesh()
    known = mesh if around.empty else around
    types = dict(zip(known.axis_names, known.axis_types, strict=True))
    groups = [(axis,) if isinstance(axis, str) else axis or () for axis in p.axes]
    spec = PartitionSpec(*(tuple(a for a in group if types.get(a) is not AxisType.Manual) or None for group in groups))
    if any(p.axes) and not any(spec):
        return data
    return jax.lax.with_sharding_constraint(data, NamedSharding(mesh, spec) if around.empty else spec)
