"""PlaceDevice: a device for every node, and copy nodes where data crosses from one device to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symjax_nnvm.errors import PassError
from symjax_nnvm.ir.attributes import FMutateInputs, TIsBackward
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.ir.rewrite import rewrite

UNPLACED = -1
"""The device of a node that has none yet, in the graph attribute `device`."""

_REQUEST = ("device_group_attr_key", "device_assign_map", "device_copy_op")


@register_pass(
    "PlaceDevice", requires=_REQUEST, provides=("device",), op_attrs=("TIsBackward", "FMutateInputs"), change_graph=True
)
def _place_device_pass(graph: Graph) -> Graph:
    """Place nodes on devices as the graph attributes request."""
    attrs = graph.attrs
    other_attrs = {key: value for key, value in attrs.items() if key not in _REQUEST}
    return place_device(
        graph.derive(attrs=other_attrs),
        group_attr_key=attrs["device_group_attr_key"],
        assign_map=attrs["device_assign_map"],
        copy_op=attrs["device_copy_op"],
    )


def place_device(
    graph: Graph,
    *,
    group_attr_key: str,
    assign_map: Mapping[str, int],
    copy_op: str | None,
    device: Sequence[int] | None = None,
) -> Graph:
    """Give every node a device number, and copy data with `copy_op` where it crosses devices.

    A node whose attribute `group_attr_key` names a group runs on `assign_map[group]`. Others follow, in this order:
    `device` (per node, -1 unknown; left out, the graph attribute of that name), a backward operator its forward node,
    an operator its first placed input, an input its consumer, and device 0. When everything is on one device the
    structure is kept; otherwise nodes with remote inputs are rebuilt, one copy node `{source}_{index}_copy` serving
    all consumers on a device, and other graph attributes are dropped. copy_op None: no copies, for a caller who moves
    the data itself.

    Result: graph attribute `device`, by node id. Raises PassError for a group without a device, and for a variable
    that an operator on another device would write; OpNotRegisteredError for `copy_op`.
    Source of the semantics: NNVM's `place_device.cc`.
    """
    index = graph.indexed_graph()
    operator = None if copy_op is None else Op.get(copy_op)
    preset = graph.attrs.get("device") if device is None else device
    if preset is not None and len(preset) != index.num_nodes:
        raise PassError("Wrong length of graph attribute device", expected=f"{index.num_nodes} nodes", got=len(preset))
    placed = [UNPLACED] * index.num_nodes if preset is None else list(preset)
    _spread(index, placed, group_attr_key, assign_map)
    if operator is None or len(set(placed)) <= 1:
        return graph.derive(attrs=graph.attrs | {"device": placed})
    transfers = _Transfers(index, placed, operator)
    rebuilt = graph.derive(rewrite(graph.outputs, transfers.insert).outputs, attrs={})
    rebuilt.attrs["device"] = [transfers.device_of[node.source] for node in rebuilt.indexed_graph().nodes]
    return rebuilt


def _spread(index: IndexedGraph, placed: list[int], group_attr_key: str, assign_map: Mapping[str, int]) -> None:
    """Fill in `placed`: groups, then inputs to users, then users to inputs, then device 0."""
    for nid, node in enumerate(index.nodes):
        group = node.source.attrs.dict.get(group_attr_key)
        if group is not None:
            if group not in assign_map:
                raise PassError(
                    f"The device assignment not found for group {group}",
                    op=node.source.op,
                    node=node.source,
                    expected=f"one of {sorted(assign_map)}",
                )
            placed[nid] = assign_map[group]
            continue
        if TIsBackward.get(node.source.op, False) and node.control_deps:
            sources = node.control_deps[:1]
        else:
            sources = [entry.node_id for entry in node.inputs]
        placed[nid] = next((placed[source] for source in sources if placed[source] != UNPLACED), placed[nid])
    for nid in range(index.num_nodes - 1, -1, -1):
        if placed[nid] != UNPLACED:
            for entry in index.nodes[nid].inputs:
                if placed[entry.node_id] == UNPLACED:
                    placed[entry.node_id] = placed[nid]
    placed[:] = [0 if device == UNPLACED else device for device in placed]


class _Transfers:
    """The rewriting rule: copy nodes where data crosses devices. device_of: the device of each new node."""

    def __init__(self, index: IndexedGraph, placed: Sequence[int], copy_op: Op):
        self.index = index
        self.placed = placed
        self.copy_op = copy_op
        self.device_of: dict[Node, int] = {}
        # The version is part of the key: a value before and one after a write are different data.
        self.transfers: dict[tuple[NodeEntry, int], Node] = {}

    def insert(self, node: Node, draft: Node) -> Node:
        """Return the node, or a copy that reads copies of entries on other devices."""
        nid = self.index.node_id(node)
        self._check_mutation(nid)
        target = self.placed[nid]
        inputs = [self._local(entry, target) for entry in draft.inputs]
        if inputs != draft.inputs:
            draft = node.copy() if draft is node else draft
            draft.inputs = inputs
        self.device_of[draft] = target
        return draft

    def _local(self, entry: NodeEntry, target: int) -> NodeEntry:
        """Return the entry on a device."""
        if self.device_of[entry.node] == target:
            return entry
        transfer = self.transfers.get((entry, target))
        if transfer is None:
            attrs = NodeAttrs(self.copy_op, f"{entry.node.name}_{entry.index}_copy")
            attrs.parse()
            transfer = self.transfers[entry, target] = Node(attrs, [entry])
            self.device_of[transfer] = target
        return NodeEntry(transfer, 0, 0)

    def _check_mutation(self, nid: int) -> None:
        node = self.index.nodes[nid]
        mutates = FMutateInputs.get(node.source.op)
        for i in () if mutates is None else mutates(node.source.attrs):
            if self.placed[node.inputs[i].node_id] != self.placed[nid]:
                op = node.source.op
                raise PassError(
                    f"mutable state cannot go across device op={op.name if op else None} input_state_index={i}",
                    node=node.source,
                    expected=f"the variable on device {self.placed[nid]}",
                    got=f"device {self.placed[node.inputs[i].node_id]}",
                )
