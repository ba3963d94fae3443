"""SimplifyInference: what trains, or does nothing, in plainer words (NNVM's `simplify_inference.cc`).

An operator's card says what it is where nobody trains (FInference): dropout and copies are their data, BatchNorm is a
scale and a shift of every channel, which depend on parameters alone.
"""

from __future__ import annotations

from typing import TypeVar

from symjax_nnvm.ir.card import FInference
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.match import Match, op, rules
from symjax_nnvm.ir.node import NodeEntry
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite

__all__ = ["simplify_inference"]

G = TypeVar("G", bound=Graph)


def simplify_inference(graph: G) -> G:
    """The graph as it is where nobody trains; the same one where there is nothing to simplify.

    Nodes of which somebody reads another output than the first stay. States that nothing writes any more keep their
    values, and variables that nothing reads any more are not in the graph. Linear in nodes and edges; reads no shapes.
    """
    if not any(node.op in FInference for node in graph.nodes()):
        return graph
    return apply_pass(graph, "SimplifyInference")


@register_pass("SimplifyInference", op_attrs=("FInference",), change_graph=True)
def _simplify(graph: Graph) -> Graph:
    """Operators in plainer words, for inference alone; see `simplify_inference`."""
    rule = rules(graph.outputs, [(op(FInference.__contains__, output=0), _plainer)])
    return graph.derive(rewrite(graph.outputs, rule, order=graph.nodes()).outputs)


def _plainer(match: Match) -> NodeEntry | None:
    return FInference[match.root.op](match.root)
