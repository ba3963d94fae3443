"""Graph: heads and attributes, which passes take and return (NNVM's `graph.h`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from symjax_nnvm.errors import GraphError, explain
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.traverse import post_order

__all__ = ["MXNET_VERSION", "Graph"]

MXNET_VERSION = 10901
"""The version that saved graphs claim (attribute `mxnet_version`), 1.9.1: what decides how a reader upgrades them."""


class Graph:
    """A computation graph: its output entries, and any attributes that passes read and write.

    The structure is all nodes that the outputs reach. Passes never edit the nodes they are given.
    """

    __slots__ = ("_indexed_graph", "_nodes", "attrs", "outputs")

    def __init__(self, outputs: Iterable[NodeEntry] = (), attrs: dict[str, Any] | None = None):
        self.outputs: list[NodeEntry] = list(outputs)
        self.attrs: dict[str, Any] = {} if attrs is None else dict(attrs)
        self._indexed_graph: IndexedGraph | None = None
        self._nodes: list[Node] | None = None

    def get_attr(self, key: str) -> Any:
        """Return a graph attribute. Raises GraphError when it is not set."""
        if key not in self.attrs:
            raise GraphError(self._missing(key))
        return self.attrs[key]

    def has_attr(self, key: str) -> bool:
        """Return whether a graph attribute is set."""
        return key in self.attrs

    def move_copy_attr(self, key: str) -> Any:
        """Take a graph attribute out and return it. Raises GraphError when it is not set."""
        if key not in self.attrs:
            raise GraphError(self._missing(key))
        return self.attrs.pop(key)

    def _missing(self, key: str) -> str:
        return explain(f"Cannot find attribute {key} in the graph", got=f"attributes {sorted(self.attrs)}")

    def nodes(self) -> list[Node]:
        """Return the nodes in post-order; listed on first use, kept and shared as the tables are. Not to be changed."""
        if self._nodes is None:
            self._nodes = post_order(self.outputs)
        return self._nodes

    def indexed_graph(self) -> IndexedGraph:
        """Return the graph as tables; built on first use, kept, and shared by copies of the graph.

        Changing `outputs` afterwards does not refresh it.
        """
        if self._indexed_graph is None:
            self._indexed_graph = IndexedGraph(self.outputs)
        return self._indexed_graph

    def derive(self, outputs: Iterable[NodeEntry] | None = None, attrs: dict[str, Any] | None = None) -> Self:
        """Return a new graph of the same class: with other outputs, or with other attributes over the same structure.

        What is left out is taken over; over the same outputs nodes and tables are shared.
        """
        derived = type(self)(self.outputs if outputs is None else outputs, self.attrs if attrs is None else attrs)
        if outputs is None:
            derived._indexed_graph, derived._nodes = self._indexed_graph, self._nodes
        return derived

    def __copy__(self) -> Self:
        return self.derive()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self.outputs)} outputs, attributes {sorted(self.attrs)}>"
