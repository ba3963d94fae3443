"""Lists of a graph, in post-order: its variables, arguments apart from states that nodes write, and output names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from symjax_nnvm.ir.attributes import FListOutputNames, FMutateInputs
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, Subgraph
from symjax_nnvm.ir.traverse import post_order

_VARIABLES = "variables"

InputOption = Literal["all", "read_only", "aux_state"]
"""Which variables: all, those no operator writes (arguments), those some operator writes (auxiliary states)."""


def input_nodes(outputs: Iterable[NodeEntry], option: InputOption = "all") -> list[Node]:
    """Return the variable nodes of a graph in post-order (NNVM's ListInputs)."""
    return variables(post_order(outputs), option)


def variables(nodes: Sequence[Node], option: InputOption = "all") -> list[Node]:
    """Return the variables among all nodes of a graph, in their order."""
    inputs = [node for node in nodes if node.is_variable]
    if option == "all":
        return inputs
    mutated: set[Node] = set()
    for node in nodes:
        mutates = FMutateInputs.get(node.op)
        if mutates is not None:
            mutated.update(node.inputs[i].node for i in mutates(node.attrs) if i < len(node.inputs))
    return [node for node in inputs if (node in mutated) == (option == "aux_state")]


def subgraph_variables(graph: Subgraph) -> list[Node]:
    """Return the variables of a subgraph, in the order in which its operator feeds them: in post-order, or in the order
    passed to `subgraph`. A variable that a pass has made unnecessary may be missing in the graph."""
    listed = graph.attrs.get(_VARIABLES) if isinstance(graph, Graph) else None
    return input_nodes(graph.outputs) if listed is None else listed


def subgraph(outputs: Iterable[NodeEntry], fed: Sequence[Node]) -> Graph:
    """Return a subgraph whose operator feeds these variables, in this order, also those that its outputs do not
    reach."""
    return Graph(outputs, {_VARIABLES: list(fed)})


def count_subgraph_nodes(nodes: Iterable[Node]) -> int:
    """Return how many nodes the subgraphs of these nodes have, those of nested subgraphs included."""
    total, todo = 0, [body for node in nodes for body in node.attrs.subgraphs]
    while todo:
        inner = post_order(todo.pop().outputs)
        total += len(inner)
        todo += [body for node in inner for body in node.attrs.subgraphs]
    return total


def input_names(outputs: Iterable[NodeEntry], option: InputOption = "all") -> list[str]:
    """Return names of the variables in post-order."""
    return [node.name for node in input_nodes(outputs, option)]


def output_names(outputs: Sequence[NodeEntry]) -> list[str]:
    """Return names of the outputs: a variable's name, else `{node}_{output}`."""
    names = {node: _output_names(node) for node in dict.fromkeys(entry.node for entry in outputs)}
    return [names[entry.node][entry.index] for entry in outputs]


def _output_names(node: Node) -> list[str]:
    if node.is_variable:
        return [node.name]
    list_names = FListOutputNames.get(node.op)
    if list_names is not None:
        names = list(list_names(node.attrs))
    else:
        count = node.num_outputs()
        names = ["output"] if count == 1 else [f"output{i}" for i in range(count)]
    return [f"{node.name}_{name}" if node.name else name for name in names]
