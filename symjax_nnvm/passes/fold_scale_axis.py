"""FoldScaleAxis: scales and shifts of channels become part of the weights before them (NNVM's `fold_scale_axis.cc`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from symjax_nnvm.ir.card import FScaled
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.match import Match, op, rules
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.passes.precompute_prune import Constants

__all__ = ["fold_scale_axis"]

G = TypeVar("G", bound=Graph)


def fold_scale_axis(graph: G, constants: Collection[str]) -> G:
    """The graph with what `_scale_shift` does to the result of an operator done to its weight and bias instead.

    An operator's card says how (FScaled). Folded is what nobody else reads, where weight, bias, scale and shift depend
    on variables of these names alone: arithmetic on weights is worth its while if it is done once. The same graph where
    there is nothing to fold. Linear in nodes and edges; reads no shapes.
    """
    if not any(_scales(node) for node in graph.nodes()):
        return graph
    return apply_pass(graph.derive(attrs=graph.attrs | {"constants": frozenset(constants)}), "FoldScaleAxis")


def _scales(node: Node) -> bool:
    return node.op is not None and node.op.name == "_scale_shift"


@register_pass("FoldScaleAxis", requires=("constants",), op_attrs=("FScaled",), change_graph=True)
def _fold(graph: Graph) -> Graph:
    """Scales and shifts folded into weights; see `fold_scale_axis`."""
    attrs = dict(graph.attrs)
    constants = Constants(graph, attrs.pop("constants"))

    def fold(match: Match) -> Node | None:
        product, (_, scale, shift) = match.node("product"), match.root.inputs
        if not all(entry.node in constants for entry in (*product.inputs[1:], scale, shift)):
            return None
        return FScaled[product.op](product, scale, shift, match.root.attrs.parsed.axis)

    scaled = op("_scale_shift", op(FScaled.__contains__, output=0, alone=True, name="product"), ...)
    rule = rules(graph.outputs, [(scaled, fold)])
    return graph.derive(rewrite(graph.outputs, rule, order=graph.nodes()).outputs, attrs)
