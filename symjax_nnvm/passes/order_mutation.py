"""OrderMutation: variable versions → control dependencies, so that every topological order is a right one."""

from __future__ import annotations

from typing import NamedTuple

from symjax_nnvm.errors import GraphError
from symjax_nnvm.ir.attributes import FMutateInputs
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.traverse import post_order


class _Access(NamedTuple):
    """One use of a variable: by which node, as which input, of which version, and whether it writes."""

    version: int
    is_read: bool  # before `node`, so that a version's write sorts before its reads
    order: int
    node: Node
    slot: int


@register_pass("OrderMutation", op_attrs=("FMutateInputs",), change_graph=True)
def order_mutation(graph: Graph) -> Graph:
    """Make every read of a variable depend on the write it must see, and every write on the reads before it.

    A read of version v depends on the write of v; a write of version v on all reads of v - 1, or, when there are none,
    on the write of v - 1. A node never depends on itself (upstream adds such a dependency to a first write). Nodes
    that change, or depend on one that does, are copies; a graph in which no variable is written is returned as it is.
    The result has no graph attributes. Raises GraphError when the versions contradict the data flow.

    Source of the semantics: NNVM's `order_mutation.cc`. Time: linear, but for sorting each variable's uses.
    """
    nodes = post_order(graph.outputs)
    tracked = {entry.node for node in nodes for entry in node.inputs if entry.version and entry.node.is_variable}
    if not tracked:
        return graph
    dependencies = _dependencies(nodes, tracked)

    def copy_versioned(node: Node, draft: Node) -> Node:
        versioned = any(entry.version and entry.node.is_variable for entry in node.inputs)
        return node.copy() if versioned and draft is node else draft

    rewritten = rewrite(graph.outputs, copy_versioned, order=nodes)
    for node, copy in rewritten.replaced():  # what a node waits for may come later in the order
        added = (dep for slot in range(len(node.inputs)) for dep in dependencies.get((node, slot), ()))
        copy.control_deps = [rewritten.node(dep) for dep in (*node.control_deps, *added)]
    ordered = graph.derive(rewritten.outputs, attrs={})
    try:
        ordered.indexed_graph()
    except GraphError as error:
        raise GraphError(
            "Reads and writes of a variable cannot be ordered: a node that reads a value before it is overwritten "
            "uses the result of the node that overwrites it",
            expected=f"versions that agree with the data flow of {', '.join(sorted(v.name for v in tracked))}",
            got=str(error),
        ) from error
    return ordered


def _dependencies(nodes: list[Node], tracked: set[Node]) -> dict[tuple[Node, int], list[Node]]:
    """Map (node, input number) → the nodes that this use of a tracked variable has to wait for."""
    histories: dict[Node, list[_Access]] = {variable: [] for variable in tracked}
    for order, node in enumerate(nodes):
        mutates = FMutateInputs.get(node.op)
        mutated = frozenset(() if mutates is None else mutates(node.attrs))
        for slot, (source, _, version) in enumerate(node.inputs):
            if source in tracked:
                # A write without a version (as in some files) is not an event that others could wait for.
                is_read = slot not in mutated or version == 0
                histories[source].append(_Access(version, is_read, order, node, slot))
    readers: dict[tuple[Node, int], list[Node]] = {}
    for history in histories.values():
        history.sort(key=lambda access: access[:3])
        last_write: list[Node] = []
        reads: list[Node] = []
        for access in history:
            if access.is_read:
                waits_for = last_write
                reads.append(access.node)
            else:
                waits_for = reads[::-1] or last_write
                last_write, reads = [access.node], []
            readers[access.node, access.slot] = [node for node in waits_for if node is not access.node]
    return readers
