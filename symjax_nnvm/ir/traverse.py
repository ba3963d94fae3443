"""Post-order depth-first traversal: the one order in which every part of the library visits a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter

from symjax_nnvm.ir.node import Node, NodeEntry

__all__ = ["post_order", "post_order_nodes", "successors"]


_source = itemgetter(0)  # of an entry


def successors(node: Node) -> list[Node]:
    """Return the nodes to visit before a node: those of its inputs in order, then its control dependencies."""
    if node is None:
        return []
    nodes = list(map(_source, node.inputs))
    return [*nodes, *node.control_deps] if node.control_deps else nodes


def post_order(entries: Iterable[NodeEntry]) -> list[Node]:
    """Return every node reachable from the entries, each once, inputs before users (NNVM's `DFSVisit`).

    A node is marked when it is reached, not when it is emitted, so a cycle does not loop; `IndexedGraph` reports it.
    Time and memory are linear in nodes + edges; the traversal does not recurse.
    """
    return post_order_nodes(entry[0] for entry in entries)


def post_order_nodes(heads: Iterable[Node], successors: Callable[[Node], list[Node]] = successors) -> list[Node]:
    """Return `post_order` from nodes instead of entries, and along the edges of `successors`."""
    order: list[Node] = []
    visited: set[Node] = set()
    for head in heads:
        if head in visited:
            continue
        visited.add(head)
        path = [head]
        pending: list[Iterator[Node]] = [iter(successors(head))]
        while path:
            for node in pending[-1]:
                if node not in visited:
                    visited.add(node)
                    before = successors(node)
                    if before:
                        path.append(node)
                        pending.append(iter(before))
                        break
                    order.append(node)
            else:
                order.append(path.pop())
                pending.pop()
    return order
