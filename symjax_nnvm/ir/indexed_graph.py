"""IndexedGraph: a graph as tables (NNVM's `graph.h`).

Nodes get consecutive numbers in post-order, entries (outputs of nodes) consecutive numbers node by node, so that
passes keep their results in flat lists instead of hash maps. The tables agree with the JSON that SaveJSON writes.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, overload

from symjax_nnvm.errors import GraphError, explain
from symjax_nnvm.ir.attributes import FMutateInputs
from symjax_nnvm.ir.node import Node, NodeEntry, Subgraph
from symjax_nnvm.ir.traverse import post_order, successors

__all__ = ["IndexedEntry", "IndexedGraph", "IndexedNode", "subgraph_sanity_check"]


class IndexedEntry(NamedTuple):
    """One output of a node, by number: (node_id, index, version)."""

    node_id: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]  # NNVM's name; tuple.index is of no use here
    version: int = 0


class IndexedNode(NamedTuple):
    """A node in an indexed graph: the source node, and its inputs and control dependencies by number."""

    source: Node
    inputs: tuple[IndexedEntry, ...]
    control_deps: tuple[int, ...]

    @property
    def weak_ref(self) -> weakref.ref[Node]:
        """Return a weak reference to the source node."""
        return weakref.ref(self.source)

    def __repr__(self) -> str:
        return f"IndexedNode({self.source!r}, inputs={self.inputs}, control_deps={self.control_deps})"


class IndexedGraph:
    """The tables of a graph; they never change.

    Attributes:
        nodes: the nodes in post-order; a node's number is its place here.
        entry_rptr: CSR row pointers, `len(nodes) + 1` numbers. The outputs of node n, hidden ones included, are the
            entries `entry_rptr[n]` to `entry_rptr[n + 1]`.
        input_nodes: numbers of the variables, ascending.
        mutated_inputs: the inputs that a node writes, by the node's number; nodes that write none are left out.
        mutable_input_nodes: numbers of the nodes whose outputs are written.
        outputs: the heads.

    Raises:
        GraphError: an input is missing from the graph, as happens where it has a cycle.
    """

    __slots__ = (
        "__dict__",
        "_node2index",
        "entry_rptr",
        "input_nodes",
        "mutable_input_nodes",
        "mutated_inputs",
        "nodes",
        "outputs",
    )

    def __init__(self, outputs: Sequence[NodeEntry]):
        self.nodes: list[IndexedNode] = []
        self.entry_rptr: list[int] = [0]
        self.input_nodes: list[int] = []
        self.mutable_input_nodes: set[int] = set()
        self.mutated_inputs: dict[int, tuple[int, ...]] = {}
        self._node2index: dict[Node, int] = {}
        subgraphs: list[Subgraph] = []
        node2index, new = self._node2index, tuple.__new__
        nodes, entry_rptr = self.nodes, self.entry_rptr
        entries = 0
        for nid, node in enumerate(post_order(outputs)):
            if node is None:
                raise GraphError("The graph refers to a missing node (None).")
            attrs = node.attrs
            op = attrs.op
            if op is None:
                self.input_nodes.append(nid)
                entries += 1
            else:
                entries += op.num_outputs(attrs)
            entry_rptr.append(entries)
            if attrs.subgraphs:
                subgraphs.extend(attrs.subgraphs)
            try:
                inputs = tuple([new(IndexedEntry, (node2index[n], i, version)) for n, i, version in node.inputs])
                deps = tuple([node2index[dep] for dep in node.control_deps]) if node.control_deps else ()
            except KeyError:
                raise _cycle_error(node, node2index) from None
            node2index[node] = nid
            nodes.append(new(IndexedNode, (node, inputs, deps)))
            if op in FMutateInputs and (mutated := tuple(FMutateInputs[op](attrs))):
                self.mutated_inputs[nid] = mutated
                self.mutable_input_nodes.update(_mutated(node, inputs, mutated))
        self.outputs = [IndexedEntry(node2index[node], index, version) for node, index, version in outputs]
        if subgraphs:
            subgraph_sanity_check(subgraphs)

    # -- edges, made on first use ----------------------------------------------------------------------------------

    @cached_property
    def input_entries(self) -> list[IndexedEntry]:
        """Return the inputs of all nodes in one list, node by node."""
        return [entry for node in self.nodes for entry in node.inputs]

    @cached_property
    def inputs_rptr(self) -> list[int]:
        """Return CSR row pointers into `input_entries`: where each node's inputs begin, and the end of the last."""
        return list(accumulate((len(node.inputs) for node in self.nodes), initial=0))

    @cached_property
    def control_deps(self) -> list[int]:
        """Return the control dependencies of all nodes in one list, node by node."""
        return [dep for node in self.nodes for dep in node.control_deps]

    @cached_property
    def control_rptr(self) -> list[int]:
        """Return CSR row pointers into `control_deps`: where each node's begin, and the end of the last."""
        return list(accumulate((len(node.control_deps) for node in self.nodes), initial=0))

    # -- sizes ---------------------------------------------------------------------------------------------------

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)

    @property
    def num_node_entries(self) -> int:
        """Return the number of entries: the outputs of all nodes."""
        return self.entry_rptr[-1]

    def __len__(self) -> int:
        return len(self.nodes)

    # -- lookups -------------------------------------------------------------------------------------------------

    def exist(self, node: Node) -> bool:
        """Return whether the node belongs to the graph."""
        return node in self._node2index

    def node_id(self, key: Node | str) -> int:
        """Return the number of a node.

        Args:
            key: the node, or its name; of several nodes with one name, the last counts.

        Raises:
            GraphError: the graph has no such node.
        """
        if isinstance(key, str):
            last_first = range(len(self.nodes) - 1, -1, -1)
            number = next((nid for nid in last_first if self.nodes[nid].source.name == key), None)
        else:
            number = self._node2index.get(key)
        if number is None:
            raise GraphError(explain("No such node in the graph", node=key))
        return number

    @overload
    def entry_id(self, key: IndexedEntry | NodeEntry, /) -> int: ...
    @overload
    def entry_id(self, key: int | str | Node, index: int = 0, /) -> int: ...
    def entry_id(self, key: IndexedEntry | NodeEntry | int | str | Node, index: int = 0, /) -> int:
        """Return the number of an entry, given as (node id, index), (node or name, index) or an entry."""
        if isinstance(key, NodeEntry):
            return self.entry_rptr[self.node_id(key.node)] + key.index
        if isinstance(key, tuple):
            return self.entry_rptr[key.node_id] + key.index
        return self.entry_rptr[key if isinstance(key, int) else self.node_id(key)] + index

    def __getitem__(self, key: int | Node | str) -> IndexedNode:
        return self.nodes[key if isinstance(key, int) else self.node_id(key)]

    @property
    def input_names(self) -> list[str]:
        """Return names of the variables, in the order of `input_nodes`."""
        return [self.nodes[nid].source.name for nid in self.input_nodes]

    @property
    def output_entries(self) -> list[IndexedEntry]:
        """Return the heads (NNVM's Python name for `outputs`)."""
        return self.outputs

    def __repr__(self) -> str:
        return f"<IndexedGraph {self.num_nodes} nodes, {self.num_node_entries} entries>"


def subgraph_sanity_check(subgraphs: Sequence[Subgraph]) -> None:
    """Check that no node belongs to subgraphs of two nesting levels. Raises GraphError.

    `subgraphs` are those of a main graph's nodes: level 0; subgraphs of nodes in level k are level k + 1.
    """
    level_of: dict[Node, int] = {}
    current: list[Subgraph] = list(subgraphs)
    level = 0
    while current:
        deeper: list[Subgraph] = []
        for symbol in current:
            for node in post_order(symbol.outputs):
                if level_of.setdefault(node, level) != level:
                    raise GraphError(
                        explain(
                            "A subgraph should not depend on the outputs of nodes on higher levels",
                            node=node,
                            got=f"the node on nesting levels {level_of[node]} and {level}",
                            fix="Give each level its own nodes, and pass values in as inputs of the operator.",
                        )
                    )
                deeper.extend(node.attrs.subgraphs)
        current = deeper
        level += 1


def _mutated(node: Node, inputs: Sequence[IndexedEntry], mutated: Sequence[int]) -> list[int]:
    if any(i >= len(inputs) for i in mutated):
        raise GraphError(
            explain(
                "An operator is missing an input that it writes",
                op=node.op,
                node=node,
                expected=f"inputs {list(mutated)} to be there",
                got=f"{len(inputs)} inputs",
                fix="Compose the symbol with its inputs first.",
            )
        )
    return [inputs[i].node_id for i in mutated]


def _cycle_error(node: Node, node2index: dict[Node, int]) -> GraphError:
    # In post-order everything a node depends on comes before it, unless it depends on itself through them.
    missing = next(dep for dep in successors(node) if dep not in node2index)
    return GraphError(
        explain(
            "The graph has a cycle",
            node=node,
            expected="inputs and control dependencies that do not depend on the node itself",
            got=f"a dependency on node {missing.name!r}",
        )
    )
