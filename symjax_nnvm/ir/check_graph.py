"""Check what must hold of any graph: run it after a pass of your own, or between all passes (`checking_passes`).

Checked are: dependencies have no cycle; every input and head names an output that its node has; an operator has as many
inputs as it takes; what an operator writes is a variable; versions count the mutations of variables and nothing else,
each written once; parsed parameters equal their text; a backward operator has the forward node it refers to; a
subgraph reads no variables but those that its operator feeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from symjax_nnvm.errors import GraphError, NNVMError
from symjax_nnvm.ir.attributes import FInputGraph, FMutateInputs, FSubgraphSizes, TSupersedes
from symjax_nnvm.ir.listing import input_nodes, subgraph_variables
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, VariableParam
from symjax_nnvm.ir.traverse import post_order, successors

_LISTED = 5


def check_graph(outputs: Sequence[NodeEntry]) -> None:
    """Raise GraphError, naming nodes and their faults, unless all holds that must hold of a graph.

    Subgraphs are checked like the graph itself. Linear in nodes and edges.
    """
    faults = list(graph_faults(outputs))
    if faults:
        more = f"; and {len(faults) - _LISTED} more" if len(faults) > _LISTED else ""
        raise GraphError(f"The graph is broken: {'; '.join(faults[:_LISTED])}{more}.")


def subgraph_misfit(node: Node) -> tuple[str, str] | None:
    """Return (sizes that the operator's parameters state of its subgraphs, actual sizes), where these differ."""
    sizes_of = FSubgraphSizes.get(node.attrs.op)
    if sizes_of is None or node.attrs.parsed is None:
        return None
    expected = list(sizes_of(node.attrs))
    got = [(len(subgraph_variables(graph)), len(graph.outputs)) for graph in node.attrs.subgraphs]
    return None if got == expected else (_sizes(expected), _sizes(got))


def _sizes(sizes: Sequence[tuple[int, int]]) -> str:
    return f"{len(sizes)} subgraphs" + "".join(f", {count} variables → {heads} outputs" for count, heads in sizes)


def graph_faults(outputs: Sequence[NodeEntry]) -> Iterator[str]:
    """Yield the faults of a graph, one sentence each; nothing for a sound one."""
    pending = [list(outputs)]
    visited: set[Node] = set()
    while pending:
        heads = pending.pop()
        nodes = [
            node for node in post_order(heads) if isinstance(node, Node)
        ]  # others are reported at the nodes that refer to them
        for i, head in enumerate(heads):
            yield from _entry_faults(head, f"head {i}")
        position = {node: i for i, node in enumerate(nodes)}
        for node in nodes:
            yield from _cycle_faults(node, position)
            yield from _node_faults(node)
            if node not in visited:  # an operator may hold a graph twice
                visited.add(node)
                pending.extend(list(graph.outputs) for graph in node.attrs.subgraphs)
        yield from _version_faults(heads, nodes)


def _entry_faults(entry: NodeEntry, reader: str) -> Iterator[str]:
    node, index, _ = entry
    if not isinstance(node, Node):
        yield f"{reader} refers to {node!r}, which is not a node"
    elif not 0 <= index < node.num_outputs():
        yield f"{reader} reads output {index} of node {node.name!r}, which has {node.num_outputs()}"


def _cycle_faults(node: Node, position: dict[Node, int]) -> Iterator[str]:
    for source in successors(node):
        if isinstance(source, Node) and position[source] >= position[node]:
            yield f"node {node.name!r} depends on itself through node {source.name!r}"


def _node_faults(node: Node) -> Iterator[str]:
    where = f"node {node.name!r}"
    attrs = node.attrs
    for i, entry in enumerate(node.inputs):
        yield from _entry_faults(entry, f"input {i} of {where}")
    if not all(isinstance(dep, Node) for dep in node.control_deps):
        yield f"{where} has a control dependency that is not a node"
    if attrs.op is None:
        if node.inputs:
            yield f"variable {node.name!r} has inputs"
        return
    takes = node.num_inputs()
    if takes is not None and attrs.op in FInputGraph:
        takes -= len(list(FInputGraph[attrs.op](attrs)))  # they are in attrs.subgraphs
    if takes is not None and len(node.inputs) != takes:
        yield f"{where} ({attrs.op.name}) has {len(node.inputs)} inputs but takes {takes}"
    misfit = subgraph_misfit(node)
    if misfit is not None:
        yield f"{where} ({attrs.op.name}) has {misfit[1]}; its parameters say {misfit[0]}"
    for body in attrs.subgraphs:
        fed = set(subgraph_variables(body))
        for variable in input_nodes(body.outputs):
            if variable not in fed:
                yield f"{where} ({attrs.op.name}) runs a subgraph that reads {variable.name!r}, which no input feeds"
    if TSupersedes.get(attrs.op) and not node.control_deps:
        yield f"{where} ({attrs.op.name}) supersedes a node but has no control dependency that names it"
    yield from _parameter_faults(attrs, where)


def _parameter_faults(attrs: NodeAttrs, where: str) -> Iterator[str]:
    """Compare parsed parameters with their text: a pass that edits one must renew the other."""
    if attrs.op is None or attrs.op.attr_parser is None:
        return
    again = NodeAttrs(attrs.op, attrs.name, attrs.dict, None, attrs.scalars, attrs.subgraphs)
    try:
        again.parse()
    except NNVMError as error:
        yield f"{where}: {error}".rstrip(".")
        return
    if again.parsed != attrs.parsed and repr(again.parsed) != repr(attrs.parsed):  # nan is not equal to itself
        yield f"{where} ({attrs.op.name}) has parameters {attrs.parsed!r}, but its text says {again.parsed!r}"


def _version_faults(heads: Sequence[NodeEntry], nodes: Sequence[Node]) -> Iterator[str]:
    writers: dict[tuple[Node, int], str] = {}
    for reader, entry in _uses(heads, nodes):
        source, _, version = entry
        if not isinstance(source, Node) or not version:
            continue
        if source.op is not None:
            yield f"{reader} reads version {version} of node {source.name!r}, which is not a variable"
        elif not isinstance(source.attrs.parsed, VariableParam) or not 0 <= version <= source.attrs.parsed.version:
            counted = getattr(source.attrs.parsed, "version", None)
            yield f"{reader} reads version {version} of variable {source.name!r}, which counts {counted}"
    for node in nodes:
        mutates = FMutateInputs.get(node.op)
        for i in () if mutates is None else mutates(node.attrs):
            if i >= len(node.inputs):
                continue  # reported as a wrong number of inputs
            source, _, version = node.inputs[i]
            if isinstance(source, Node) and source.op is not None:
                yield f"node {node.name!r} writes its input {i}, which is node {source.name!r} and not a variable"
            elif version and node.info is None:  # a recomputed copy has info and writes nothing
                first = writers.setdefault((source, version), node.name)
                if first is not node.name:
                    yield f"version {version} of {source.name!r} is written by nodes {first!r} and {node.name!r}"


def _uses(heads: Sequence[NodeEntry], nodes: Sequence[Node]) -> Iterator[tuple[str, NodeEntry]]:
    for i, head in enumerate(heads):
        yield f"head {i}", head
    for node in nodes:
        for i, entry in enumerate(node.inputs):
            yield f"input {i} of node {node.name!r}", entry
