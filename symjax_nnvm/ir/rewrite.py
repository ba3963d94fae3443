"""The one rewriter: it builds a graph anew, bottom up, with some of its nodes replaced, for passes and surgery."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from symjax_nnvm.ir.attributes import FMutateInputs
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.traverse import post_order

Rule = Callable[[Node, Node], Node | NodeEntry | None]
"""(a node, its draft) → what takes its place.

The draft is the node itself while nothing that it depends on has changed; else it is a copy of it, with attributes of
its own, which reads what its inputs have become: the rule may edit that one. None keeps the draft; a node takes the
place of the old one output for output; an entry takes the place of all its outputs.
"""


class Rewritten:
    """The result of `rewrite`: the new outputs, and the new form of every node and entry of the old graph."""

    __slots__ = ("_replaced", "outputs")

    def __init__(self) -> None:
        self.outputs: list[NodeEntry] = []
        self._replaced: dict[Node, Node | NodeEntry] = {}

    def node(self, node: Node) -> Node:
        """Return the new form of a node."""
        now = self._replaced.get(node, node)
        return now[0] if isinstance(now, tuple) else now

    def entry(self, entry: NodeEntry) -> NodeEntry:
        """Return the new form of an entry."""
        now = self._replaced.get(entry[0])
        if now is None:
            return entry
        return now if isinstance(now, tuple) else NodeEntry(now, entry[1], entry[2])

    @property
    def changed(self) -> bool:
        """Return whether any node was replaced."""
        return bool(self._replaced)

    def replaced(self) -> Iterable[tuple[Node, Node]]:
        """Return (old, new) of every node that was replaced, in the order of the rewriting."""
        return ((old, self.node(old)) for old in self._replaced)


def rewrite(
    outputs: Sequence[NodeEntry],
    rule: Rule | None = None,
    *,
    fresh: bool = False,
    order: Iterable[Node] | None = None,
) -> Rewritten:
    """Rewrite what the outputs reach, inputs before users: nodes that nothing changes stay the same objects.

    Shared nodes stay shared; names, versions and control dependencies are kept, subgraphs stay shared handles; `info`
    is not copied. The given nodes are never edited. fresh: copy every node, variables too. order: the nodes to rewrite,
    inputs first, where that is not all that the outputs reach; others stay. Linear in nodes and edges.
    """
    result = Rewritten()
    replaced = result._replaced
    entry_now, node_now = result.entry, result.node
    for node in post_order(outputs) if order is None else order:
        inputs, deps = node.inputs, node.control_deps
        draft = node
        if fresh or any(e[0] in replaced for e in inputs) or (deps and any(dep in replaced for dep in deps)):
            draft = Node(node.attrs.copy(), [entry_now(e) for e in inputs], [node_now(d) for d in deps] if deps else ())
        replacement = None if rule is None else rule(node, draft)
        if replacement is None:
            replacement = draft
        if replacement is not node:
            replaced[node] = replacement
    result.outputs = [entry_now(entry) for entry in outputs]
    return result


def rebuild(outputs: Sequence[NodeEntry], rule: Rule | None = None) -> list[NodeEntry]:
    """Return the outputs over copies of everything they reach, which the rule may edit, as surgery needs them.

    Where nodes that write a state fall away, the versions of the rest are counted anew.
    """
    return count_versions(rewrite(outputs, rule, fresh=True).outputs)


def reachable_from(outputs: Sequence[NodeEntry], sources: Iterable[Node]) -> set[Node]:
    """Return the nodes of a graph that data of the sources reach, the sources included."""
    reached = set(sources)
    for node in post_order(outputs):
        if any(entry.node in reached for entry in node.inputs):
            reached.add(node)
    return reached


def count_versions(outputs: list[NodeEntry]) -> list[NodeEntry]:
    """Number the values of every state 0, 1, 2, … by its remaining writers.

    The nodes, which must be the caller's own copies, are changed in place; returns the outputs, so numbered.
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
