"""HoistInvariants: values that no step of a loop changes are computed once, before the loop (compilers' loop-invariant
code motion; PyTensor's `scan_push_out_non_seq`)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from symjax_nnvm.ir.attributes import (
    FAddInvariant,
    FSubgraphInvariants,
    TChoosesSubgraph,
    TPrecision,
    TSameValues,
)
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import subgraph, subgraph_variables
from symjax_nnvm.ir.node import Node, NodeEntry, Subgraph
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.passes.precompute_prune import Constants, cut_constants

__all__ = ["hoist_invariants"]

G = TypeVar("G", bound=Graph)


def hoist_invariants(graph: G, constants: Collection[str] = ()) -> G:
    """Return the graph, which computes itself all values that subgraphs compute from their invariant inputs alone.

    constants: names of variables that have no gradient; what depends on them alone goes before the operator always. Of
    other values a branch keeps all, as it may not run. A loop may make no step, where the gradient of a value before it
    is zero times its derivative: NaN where that is infinite. So it keeps the operators that may have no finite
    derivative: all but products, sums and what only arranges or casts values. XLA moves those by itself where that
    is sure. What is much larger than what it is made of (TExpands) stays inside. The same graph where there is nothing
    of it. Linear; reads no shapes; subgraphs of subgraphs are not looked into.
    """
    if not any(node.op in FAddInvariant for node in graph.nodes()):
        return graph
    return apply_pass(graph.derive(attrs=graph.attrs | {"constants": frozenset(constants)}), "HoistInvariants")


@register_pass(
    "HoistInvariants", requires=("constants",), op_attrs=("FSubgraphInvariants", "FAddInvariant"), change_graph=True
)
def _hoist(graph: Graph) -> Graph:
    """Move values that no step changes before the loop; see `hoist_invariants`."""
    attrs = dict(graph.attrs)
    constants = Constants(graph, attrs.pop("constants"))

    def rule(node: Node, draft: Node) -> Node | None:
        if node.op not in FAddInvariant:
            return None
        node_made = draft
        for number, fixed in enumerate(FSubgraphInvariants[node.op](node.attrs)):
            feeds = {i: k for i, k in fixed.items() if node.inputs[k].node in constants}
            node_made = _hoisted(node_made, number, feeds)
            if not TChoosesSubgraph.get(node.op):
                feeds = dict(FSubgraphInvariants[node.op](node_made.attrs)[number])
                node_made = _hoisted(node_made, number, feeds, _has_finite_derivatives)
        return node_made

    return graph.derive(rewrite(graph.outputs, rule, order=graph.nodes()).outputs, attrs)


def _has_finite_derivatives(node: Node) -> bool:
    """Return whether the derivatives are finite at all finite inputs: also where half precision does no harm."""
    return TSameValues.get(node.op, False) or TPrecision.get(node.op, "float32") != "float32"


def _hoisted(node: Node, number: int, feeds: dict[int, int], allowed: Callable[[Node], bool] | None = None) -> Node:
    """Return the node with new inputs for the values that its subgraph `number` computes from these variables alone.

    feeds: variable → the input that it has the value of. allowed: as in `cut_constants`.
    """
    body = node.attrs.subgraphs[number]
    fed = subgraph_variables(body)
    inputs = {fed[i]: node.inputs[k] for i, k in feeds.items()}
    moving = [variable.name for variable in fed if variable not in inputs]
    cut = cut_constants(Graph(body.outputs), {variable.name for variable in inputs}.difference(moving), allowed)
    if not cut.values:
        return node

    def outside(inner: Node, draft: Node) -> NodeEntry | None:
        return inputs.get(inner)

    values = rewrite(cut.values, outside, fresh=True).outputs
    hoisted = node.copy()
    subgraphs: list[Subgraph] = list(node.attrs.subgraphs)
    subgraphs[number] = subgraph(cut.outputs, [*fed, *cut.variables])
    for _ in values:
        hoisted.attrs = FAddInvariant[node.op](hoisted.attrs, number)
    hoisted.attrs.subgraphs = subgraphs
    hoisted.inputs = [*hoisted.inputs, *values]
    return hoisted
