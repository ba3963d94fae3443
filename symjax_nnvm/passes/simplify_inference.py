"""SimplifyInference: replace training operators by simpler ones for inference (NNVM's `simplify_inference.cc`).

FInference gives an operator's form at inference: dropout and copies are their data, BatchNorm is a
scale and a shift of every channel, which depend on parameters alone.
"""

from __future__ import annotations

from typing import TypeVar

from symjax_nnvm.ir.attributes import FInference
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.uses import Uses

__all__ = ["simplify_inference"]

G = TypeVar("G", bound=Graph)


def simplify_inference(graph: G) -> G:
    """Return the graph in its form at inference; the same one where there is nothing to simplify.

    A node stays if anything reads another of its outputs than the first. States that nothing writes any more keep their
    values, and variables that nothing reads any more are not in the graph. Linear in nodes and edges; reads no shapes.
    """
    if not any(node.op in FInference for node in graph.nodes()):
        return graph
    return apply_pass(graph, "SimplifyInference")


@register_pass("SimplifyInference", op_attrs=("FInference",), change_graph=True)
def _simplify(graph: Graph) -> Graph:
    """Replace operators by simpler ones, only for inference; see `simplify_inference`."""
    uses = Uses(graph.outputs)

    def rule(node: Node, draft: Node) -> NodeEntry | None:
        plainer = _plainer(draft, uses) if uses.only(node, 0) else None
        uses.replace(node, draft, plainer or draft)
        return plainer

    return graph.derive(rewrite(graph.outputs, rule, order=graph.nodes()).outputs)


def _plainer(node: Node, uses: Uses) -> NodeEntry | None:
    """Return the entry that replaces a node, and waits for the same nodes; None where none does, or it cannot wait."""
    plainer = FInference[node.op](node) if node.op in FInference else None
    if plainer is None:
        return None
    waits = [dep for dep in node.control_deps if dep not in plainer.node.control_deps]
    if waits:
        if uses.knows(plainer.node):
            return None
        plainer.node.control_deps = [*plainer.node.control_deps, *waits]
    return plainer
