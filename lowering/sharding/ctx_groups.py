"""group2ctx: the device, or the sharding over a mesh of devices, of the arrays of each `ctx_group` of a graph."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from lowering.sharding.explicit_axes import auto_mesh
from symjax_nnvm.errors import ExecutorValueError, listed
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.passes.place_device import place_device
from symjax_nnvm.symbol.symbol import Symbol

_GROUP = "__ctx_group__"


def layouts_of_groups(symbol: Symbol, group2ctx: Mapping[str, Any]) -> dict[str, NamedSharding]:
    """Return the shardings of each group's variables, by name, if groups have shardings; all others are whole on every
    device of the mesh. Nothing, if they have devices.

    Every group must be named. An executor is one program: where groups name several devices it runs on its own, and a
    warning says so. Over a mesh XLA has each operator run where its arrays are, as MXNet does. Raises PassError for a
    group that is missing, or where an operator would write a state on another device; ExecutorValueError where some
    groups have devices and others shardings, or shardings of several meshes.
    """
    places = list(dict.fromkeys(group2ctx.values()))
    meshes = list(dict.fromkeys(auto_mesh(place.mesh) for place in places if isinstance(place, NamedSharding)))
    numbers = {group: 1 if meshes else places.index(ctx) + 1 for group, ctx in group2ctx.items()}  # 0: the executor's
    place_device(Graph(symbol.outputs), group_attr_key=_GROUP, assign_map=numbers, copy_op="_copy")
    if not meshes:
        if len(places) > 1:
            warnings.warn(
                f"group2ctx names {len(places)} devices; an executor runs on one device, and the groups are ignored. "
                "To spread a model over devices give each group a jax.sharding.NamedSharding of one mesh.",
                stacklevel=4,
            )
        return {}
    if len(meshes) > 1 or not all(isinstance(place, NamedSharding) for place in places):
        raise ExecutorValueError(
            "group2ctx mixes devices and shardings",
            expected="a device for each group, or a NamedSharding of one mesh for each",
            got=listed(map(str, places)),
            fix="Use NamedSharding(mesh, PartitionSpec()) for a group that is whole on every device.",
        )
    whole = NamedSharding(meshes[0], PartitionSpec())
    of_group = {group: NamedSharding(meshes[0], sharding.spec) for group, sharding in group2ctx.items()}
    variables = (node for node in Graph(symbol.outputs).nodes() if node.is_variable)
    return {node.name: of_group.get(node.attrs.dict.get(_GROUP, ""), whole) for node in variables}
