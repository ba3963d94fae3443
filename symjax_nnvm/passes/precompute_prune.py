"""PrecomputePrune: values that depend on constants alone are computed once (NNVM's `precompute_prune.cc`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.attributes import (
    FDraws,
    FInferShape,
    FInferType,
    FMutateInputs,
    TDataDependentShape,
    TExpands,
    THasDeterministicOutput,
    TRecompute,
)
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import variables
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.op import OpMap
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.types import is_known

__all__ = ["Constants", "Cut", "cut_constants", "infer_locally", "precompute_prune"]

G = TypeVar("G", bound=Graph)


class Constants:
    """The set of a graph's nodes that depend on variables of some names alone, or on none at all.

    Not in the set: nodes that draw random numbers, write states, have effects or a shape that depends on values; arrays
    made of nothing whose shape or dtype their readers decide; variables that some node of the graph writes; operators
    that `allowed` refuses. Nodes that a rewriting adds may be queried, too. Linear in all queries.
    """

    def __init__(self, graph: Graph, names: Collection[str], allowed: Callable[[Node], bool] | None = None):
        self._allowed = allowed
        self._known: dict[Node, bool] = {}
        for node in variables(graph.nodes()):
            self._known[node] = node.name in names
        for node in variables(graph.nodes(), "aux_state"):
            self._known[node] = False

    def __contains__(self, node: Node) -> bool:
        pending = [] if node in self._known else [node]
        while pending:
            unknown = [source for source, *_ in pending[-1].inputs if source not in self._known]
            if unknown:
                pending += unknown
                continue
            last = pending.pop()
            pure = _is_pure(last) and (self._allowed is None or self._allowed(last))
            self._known[last] = pure and all(self._known[source] for source, *_ in last.inputs)
        return self._known[node]


def _is_pure(node: Node) -> bool:
    op, attrs = node.op, node.attrs
    return (
        op is not None
        and not node.control_deps
        and not attrs.subgraphs
        and op not in FMutateInputs
        and op not in TDataDependentShape
        and THasDeterministicOutput.get(op, True)
        and (op not in FDraws or FDraws[op](attrs) is None)
        and TRecompute.get(op) != "never"
        and (bool(node.inputs) or _is_decided(node))
    )


def _is_decided(node: Node) -> bool:
    """Return whether an array that is made of nothing has its shape and dtype of itself."""
    shapes, dtypes = infer_locally(FInferShape, node, []), infer_locally(FInferType, node, [])
    return all(shape is not None and is_known(shape) for shape in shapes) and None not in dtypes


def infer_locally(rules: OpMap[Callable[..., Any]], node: Node, inputs: list[Any]) -> list[Any]:
    """Return the outputs' shapes or dtypes that an operator's rule infers from these inputs alone. A contradiction is
    no error here: inference over the whole graph reports it."""
    outputs: list[Any] = [None] * node.num_outputs()
    with suppress(NNVMError, ValueError, OverflowError):
        if node.op in rules:
            return list(rules[node.op](node.attrs, inputs, list(outputs))[1])
    return outputs


def precompute_prune(graph: G, constants: Collection[str]) -> G:
    """Return the graph with new variables in place of values that depend on variables of these names alone.

    Result: graph attribute `precompute`, the graph of the new variables' values, whose attribute `names` are their
    names, in its outputs' order; without such values the graph is returned as it is. A value much larger than its
    sources (TExpands, arrays made of nothing) is not kept, but made again from those. Linear; reads no shapes.
    """
    return apply_pass(graph.derive(attrs=graph.attrs | {"constants": frozenset(constants)}), "PrecomputePrune")


@register_pass("PrecomputePrune", requires=("constants",), provides=("precompute",), change_graph=True)
def _prune(graph: Graph) -> Graph:
    """Cut off values that depend on constants alone; see `precompute_prune`."""
    attrs = dict(graph.attrs)
    cut = cut_constants(graph, attrs.pop("constants"))
    if not cut.values:
        return graph.derive(attrs=attrs)
    values = Graph(cut.values, {"names": [variable.name for variable in cut.variables]})
    return graph.derive(cut.outputs, attrs=attrs | {"precompute": values})


class Cut(NamedTuple):
    """A graph cut in two: outputs that read variables in place of constant values, and these variables' values."""

    outputs: list[NodeEntry]
    variables: list[Node]
    values: list[NodeEntry]


def cut_constants(graph: Graph, names: Collection[str], allowed: Callable[[Node], bool] | None = None) -> Cut:
    """Cut off values that depend on variables of these names alone. A value much larger than its sources (TExpands,
    arrays made of nothing) is made again instead. The new variables have names of their own. allowed: which operators
    may be cut off, default all. Linear."""
    border = list(dict.fromkeys(_border(graph, Constants(graph, names, allowed))))
    taken = {node.name for node in variables(graph.nodes())}.union(names)
    replacements = {entry: NodeEntry(create_variable_node(name)) for entry, name in _named(border, taken)}

    def rule(node: Node, draft: Node) -> Node | None:
        if not any(entry in replacements for entry in node.inputs):
            return None
        draft = node.copy() if draft is node else draft
        draft.inputs = [replacements.get(was, now) for was, now in zip(node.inputs, draft.inputs, strict=True)]
        return draft

    rewritten = rewrite(graph.outputs, rule, order=graph.nodes())
    outputs = [replacements.get(entry) or rewritten.entry(entry) for entry in graph.outputs]
    return Cut(outputs, [entry.node for entry in replacements.values()], border)


def _border(graph: Graph, constants: Constants) -> Iterator[NodeEntry]:
    """Yield the constant entries, variables excepted, that the rest of the graph reads, or that make what it does."""
    read = [entry for node in graph.nodes() if node not in constants for entry in node.inputs]
    pending = [*reversed(graph.outputs), *reversed(read)]
    expanded: set[Node] = set()  # made again inside
    while pending:
        entry = pending.pop()
        node = entry.node
        if node.is_variable or node not in constants or node in expanded:
            continue
        if node.inputs and not TExpands.get(node.op):
            yield entry
        else:
            expanded.add(node)
            pending += reversed(node.inputs)


def _named(entries: Iterable[NodeEntry], taken: set[str]) -> Iterator[tuple[NodeEntry, str]]:
    """Yield the entries with names that are not taken."""
    for entry in entries:
        name = stem = entry.node.name or "constant"
        number = 0
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name)
        yield entry, name
