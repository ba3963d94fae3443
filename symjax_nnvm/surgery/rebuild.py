"""The one way in which surgery copies a graph: new nodes in post-order, some of them changed or replaced."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from symjax_nnvm.ir.bulk import bulk_allocation
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.op import FMutateInputs
from symjax_nnvm.ir.traverse import post_order

__all__ = ["Change", "count_versions", "reachable_from", "rebuild"]

Change = Callable[[Node, Node], NodeEntry | None]
"""(a node, its copy, whose inputs are copies already) → None to keep the copy, which may be edited, or the entry that
takes the place of the node's outputs."""


@bulk_allocation()
def rebuild(outputs: Sequence[NodeEntry], change: Change | None = None) -> list[NodeEntry]:
    """The outputs over copies of everything they reach: shared nodes stay shared, control dependencies stay.

    Where nodes that write a state fall away, the versions of the rest are counted anew. Subgraphs stay shared handles
    unless `change` gives a copy others.
    """
    copies: dict[Node, Node] = {}
    replaced: dict[Node, NodeEntry] = {}

    def moved(entry: NodeEntry) -> NodeEntry:
        source, index, version = entry
        return replaced.get(source) or NodeEntry(copies[source], index, version)

    def copy_of(node: Node) -> Node:
        return replaced[node].node if node in replaced else copies[node]

    for node in post_order(outputs):
        copy = Node(node.attrs.copy(), [moved(entry) for entry in node.inputs], [copy_of(d) for d in node.control_deps])
        entry = None if change is None else change(node, copy)
        if entry is None:
            copies[node] = copy
        else:
            replaced[node] = entry
    return count_versions([moved(entry) for entry in outputs])


def reachable_from(outputs: Sequence[NodeEntry], sources: Iterable[Node]) -> set[Node]:
    """The nodes of a graph that data of the sources reach, the sources included."""
    reached = set(sources)
    for node in post_order(outputs):
        if any(entry.node in reached for entry in node.inputs):
            reached.add(node)
    return reached


def count_versions(outputs: list[NodeEntry]) -> list[NodeEntry]:
    """Number the values of every state 0, 1, 2, … by the writers that are there.

    The nodes, which must be copies of one's own, are changed in place; returns the outputs, so numbered.
    """
    nodes = post_order(outputs)
    written: dict[Node, set[int]] = {node: set() for node in nodes if node.is_variable and node.attrs.parsed.version}
    if not written and not any(entry.version for entry in outputs):
        return outputs
    for node in nodes:
        mutates = FMutateInputs.get(node.op)
        for i in () if mutates is None else mutates(node.attrs):
            if i < len(node.inputs) and node.inputs[i].version:
                written.setdefault(node.inputs[i].node, set()).add(node.inputs[i].version)
    versions = {variable: sorted(numbers) for variable, numbers in written.items()}

    def renumbered(entry: NodeEntry) -> NodeEntry:
        return entry._replace(version=bisect_right(versions.get(entry.node, ()), entry.version))

    for node in nodes:
        if any(entry.version for entry in node.inputs):
            node.inputs = [renumbered(entry) for entry in node.inputs]
    for variable, numbers in versions.items():
        variable.attrs.parsed.version = len(numbers)
    return [renumbered(entry) for entry in outputs]
