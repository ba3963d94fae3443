"""Counts of how often nodes are read, by which a pass finds results with a single reader."""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.traverse import post_order


class Uses:
    """Counts of the reads of each node of a graph, outputs of the graph and control dependencies included.

    Counted once, and kept true while a rewriting replaces nodes.
    """

    def __init__(self, outputs: Sequence[NodeEntry]):
        self._of_node: dict[Node, int] = {}
        self._of_entry: dict[tuple[Node, int], int] = {}  # of control dependencies, index -1
        for entry in outputs:
            self._add(entry[0], entry[1])
        for node in post_order(outputs):
            self._of_node.setdefault(node, 0)
            for source, index in _reads(node):
                self._add(source, index)

    def count(self, node: Node) -> int:
        """Return how many nodes and heads read a node's outputs, or wait for it."""
        return self._of_node.get(node, 0)

    def only(self, node: Node, index: int) -> bool:
        """Return whether every reader of the node reads this output."""
        return self.count(node) == self._of_entry.get((node, index), 0) + self._of_entry.get((node, -1), 0)

    def knows(self, node: Node) -> bool:
        """Return whether the node is part of the graph as it is now."""
        return node in self._of_node

    def replace(self, node: Node, draft: Node, replacement: Node | NodeEntry) -> None:
        """Account for a rewriting's step: `made` takes the place of a node, as a rule of `rewrite` answers."""
        new, output = replacement[:2] if isinstance(replacement, tuple) else (replacement, None)
        if new is node:
            return
        counts = [(index, self._of_entry.pop((node, index), 0)) for index in range(-1, node.num_outputs())]
        del self._of_node[node]
        if new is draft:  # which reads what the node did
            self._of_node[new] = 0
        else:
            self._admit(new)
        for index, count in counts:
            if count:
                self._add(new, index if output is None or index < 0 else output, count)
        if new is not draft:
            self._leave(draft)

    def _add(self, node: Node, index: int, count: int = 1) -> None:
        self._of_node[node] = self._of_node.get(node, 0) + count
        self._of_entry[node, index] = self._of_entry.get((node, index), 0) + count

    def _admit(self, new_node: Node) -> None:
        """Count the reads of a node, if it is new, and of the new nodes before it."""
        pending = [] if new_node in self._of_node else [new_node]
        while pending:
            node = pending.pop()
            self._of_node.setdefault(node, 0)
            for source, index in _reads(node):
                if source not in self._of_node:
                    pending.append(source)
                self._add(source, index)

    def _leave(self, unread: Node) -> None:
        """Take back the reads of a node that left the graph, and of the nodes before it that leave with it."""
        pending = [unread]
        while pending:
            for source, index in _reads(pending.pop()):
                self._add(source, index, -1)
                if not self._of_node[source]:
                    del self._of_node[source]
                    pending.append(source)


def _reads(node: Node) -> list[tuple[Node, int]]:
    read = [entry[:2] for entry in node.inputs]
    return [*read, *((dep, -1) for dep in node.control_deps)] if node.control_deps else read
