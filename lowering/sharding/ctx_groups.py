"""group2ctx: the device, or the sharding over a mesh of devices, of the arrays of each `ctx_group` of a graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from lowering.sharding.explicit_axes import auto_mesh
from lowering.xla.platforms import device_of
from symjax_nnvm.errors import ExecutorValueError, listed
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.passes.place_device import place_device
from symjax_nnvm.symbol.symbol import Symbol

_GROUP = "__ctx_group__"


def places_of_groups(
    symbol: Symbol, group2ctx: Mapping[str, Any], device: Any
) -> tuple[dict[str, Any], tuple[tuple[str, Hashable], ...] | None]:
    """Return where the variables of a graph are, by name, and the devices of its groups, as `Options.groups`.

    Groups have devices, each with the operators that run there, or shardings over one mesh, whose devices run all: then
    other variables are whole on each of them, and there are no groups.

    Args:
        symbol: the graph, whose nodes name their groups in `ctx_group`.
        group2ctx: a device, or a NamedSharding, of each group.
        device: the `jax.Device` of nodes in no group; None for JAX's default.

    Raises:
        PassError: a group is missing, or an operator would write a state on another device.
        ExecutorValueError: some groups have devices and others shardings, or shardings of several meshes.
    """
    shardings = [place for place in group2ctx.values() if isinstance(place, NamedSharding)]
    meshes = list(dict.fromkeys(auto_mesh(sharding.mesh) for sharding in shardings))
    if len(meshes) > 1 or len(shardings) not in (0, len(group2ctx)):
        raise ExecutorValueError(
            "group2ctx mixes devices and shardings",
            expected="a device for each group, or a NamedSharding of one mesh for each",
            got=listed(map(str, dict.fromkeys(group2ctx.values()))),
            fix="Use NamedSharding(mesh, PartitionSpec()) for a group that is whole on every device.",
        )
    devices = {} if meshes else {name: ctx if ctx is not None else device_of(None) for name, ctx in group2ctx.items()}
    here = device if device is not None else device_of(None)
    numbers = {place: number for number, place in enumerate(dict.fromkeys([here, *devices.values()]))}
    assigned = {group: numbers[devices[group]] if devices else 0 for group in group2ctx}
    placed = place_device(Graph(symbol.outputs), group_attr_key=_GROUP, assign_map=assigned, copy_op="_copy")
    variables = [(nid, node) for nid, node in enumerate(placed.nodes()) if node.is_variable]
    if meshes:
        whole = NamedSharding(meshes[0], PartitionSpec())
        of_group = {group: NamedSharding(meshes[0], sharding.spec) for group, sharding in group2ctx.items()}
        return {node.name: of_group.get(node.attrs.dict.get(_GROUP, ""), whole) for _, node in variables}, None
    if len(numbers) == 1:
        return {}, None
    places = list(numbers)
    return (
        {node.name: places[placed.attrs["device"][nid]] for nid, node in variables},
        (("", here), *devices.items()),
    )
