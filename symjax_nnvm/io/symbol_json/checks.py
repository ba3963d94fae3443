"""Check loaded nodes once their operators are known: parameters, numbers of inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from symjax_nnvm.errors import JSONFormatError, NNVMError, explain
from symjax_nnvm.ir.attributes import FInputGraph, FMutateInputs
from symjax_nnvm.ir.check_graph import subgraph_misfit
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.op import unregistered
from symjax_nnvm.ir.traverse import post_order

Report = Callable[[Node, JSONFormatError], None]
"""Called with an unusable node and the reason, instead of an error; it must `stand_in` for the node."""

_MAX_OUTPUTS = 1 << 16  # of all nodes that have many: a number in a file must not decide how long inference takes
_FEW_OUTPUTS = 16
_MAX_UNKNOWN_OUTPUTS = 1 << 10  # of a node whose operator has no number of outputs


def check_nodes(nodes: Iterable[Node], heads: Sequence[NodeEntry] = (), report: Report | None = None) -> None:
    """Parse the parameters of loaded nodes, and check number of inputs, output numbers and mutated inputs.

    report: is called for nodes that do not pass. Without it raises JSONFormatError naming the node.
    """
    nodes = list(nodes)
    for node in nodes:
        op = node.attrs.op
        if op is not None and op.attr_parser is not None:
            try:
                op.attr_parser(node.attrs)
            except (NNVMError, ValueError) as error:
                refuse(report, node, f"Failed loading Op {node.name} of type {op.name}: {error}", error)
    for node in nodes:
        _check_arity(node, report)
        for i, entry in enumerate(node.inputs):
            _check_output_number(entry, node, i, report)
        mutates = FMutateInputs.get(node.attrs.op)
        for i in () if mutates is None else mutates(node.attrs):
            source = node.inputs[i].node if i < len(node.inputs) else None
            if source is None or not source.is_variable:
                got = "no such input" if source is None else f"the output of node {source.name!r}"
                refuse(report, node, "Mutation target can only be Variable", op=node.op, node=node, input=i, got=got)
    for i, entry in enumerate(heads):
        _check_output_number(entry, None, i, report)
    _check_total_outputs(nodes, report)


def stand_in(node: Node) -> None:
    """Make a node one of an operator that nothing is known of, so that the rest of its graph can be looked at."""
    node.attrs.op, node.attrs.parsed = unregistered("null" if node.op is None else node.op.name), None


def refuse(report: Report | None, unusable: Node, problem: str, cause: Exception | None = None, **facts: Any) -> None:
    """Report a node that cannot be used; without a report raise JSONFormatError. facts: of `explain`."""
    error = JSONFormatError(problem, **facts)
    error.__cause__ = cause
    if report is None:
        raise error
    report(unusable, error)


def _check_total_outputs(nodes: Iterable[Node], report: Report | None) -> None:
    """Every output has a place in the tables of every pass: nodes of many outputs share a bound, subgraphs included."""
    total = 0
    pending: list[Iterable[Node]] = [nodes]
    while pending:
        for node in pending.pop():
            if node.attrs.op is None:
                continue
            count = node.num_outputs()
            if count < 0 or (total + count > _MAX_OUTPUTS and count > _FEW_OUTPUTS):
                expected = f"at most {_MAX_OUTPUTS}, together with those of other nodes that have many"
                refuse(
                    report, node, "The node has too many outputs", op=node.op, node=node, expected=expected, got=count
                )
            elif count > _FEW_OUTPUTS:
                total += count
            if node.attrs.subgraphs:
                pending.extend(post_order(subgraph.outputs) for subgraph in node.attrs.subgraphs)


def _check_arity(node: Node, report: Report | None) -> None:
    attrs = node.attrs
    op = attrs.op
    if op is None:
        if node.inputs:
            refuse(report, node, "A variable takes no inputs", node=node, got=f"{len(node.inputs)} inputs")
        return
    required = op.num_inputs(attrs)
    graph_inputs = FInputGraph.get(op)
    if graph_inputs is not None and required is not None:
        required -= len(list(graph_inputs(attrs)))
    if required is not None and len(node.inputs) != required:
        expected = f"{required} in field 'inputs'"
        refuse(report, node, "The number of inputs is wrong", op=op, node=node, expected=expected, got=len(node.inputs))
    misfit = subgraph_misfit(node)
    if misfit is not None:
        refuse(
            report, node, "The subgraphs do not fit the parameters", op=op, node=node, expected=misfit[0], got=misfit[1]
        )


def _check_output_number(entry: NodeEntry, user: Node | None, i: int, report: Report | None) -> None:
    source, index, _ = entry
    count = source.num_outputs()
    if index < count:
        return
    is_known = source.op is None or source.op.is_registered
    problem = explain(
        f"Head {i} of field 'heads' is an output that does not exist"
        if user is None
        else f"Input {i} of field 'inputs' is an output that does not exist",
        node=user,
        expected=f"an output number < {count if is_known else _MAX_UNKNOWN_OUTPUTS} of node {source.name!r}",
        got=index,
    )
    if is_known:
        refuse(report, source, problem)
    if index >= _MAX_UNKNOWN_OUTPUTS:
        raise JSONFormatError(problem)
    source.attrs.parsed = index + 1
