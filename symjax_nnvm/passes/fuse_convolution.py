"""FuseConvolution: sums and activations after a convolution or a dense layer are done as its result is written.

NNVM's compiler calls it GraphFuse. A convolution or a dense layer (FFuse) takes over its only reader: the sum with
another array (TAdds), and then an activation (FActivation).
"""

from __future__ import annotations

from typing import TypeVar

from symjax_nnvm.ir.attributes import FActivation, FFuse, TAdds
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.uses import Uses

__all__ = ["fuse_convolution"]

G = TypeVar("G", bound=Graph)


def fuse_convolution(graph: G) -> G:
    """Return the graph with sums and activations fused into the products before them, where nothing else reads a
    product's result; the same graph where there are none. Linear; reads no shapes."""
    if not any(node.op in FFuse for node in graph.nodes()):
        return graph
    return apply_pass(graph, "FuseConvolution")


@register_pass("FuseConvolution", op_attrs=("FFuse", "TAdds", "FActivation"), change_graph=True)
def _fuse(graph: Graph) -> Graph:
    """Fuse sums and activations into the products before them; see `fuse_convolution`."""
    uses = Uses(graph.outputs)

    def rule(node: Node, draft: Node) -> Node | None:
        fused = _fused(draft, uses)
        uses.replace(node, draft, fused or draft)
        return fused

    return graph.derive(rewrite(graph.outputs, rule, order=graph.nodes()).outputs)


def _fused(node: Node, uses: Uses) -> Node | None:
    """Return the node that replaces a sum or an activation after a convolution; None: it stays."""
    if node.control_deps:
        return None
    if node.op in TAdds:
        for entry, other in (node.inputs, node.inputs[::-1]):
            if _is_read_here_alone(entry, uses) and (fused := FFuse[entry.node.op](entry.node, node, other, "")):
                return fused
    elif node.op in FActivation and _is_read_here_alone(entry := node.inputs[0], uses):
        act_type = FActivation[node.op](node.attrs)
        return FFuse[entry.node.op](entry.node, node, None, act_type) if act_type else None
    return None


def _is_read_here_alone(entry: NodeEntry, uses: Uses) -> bool:
    node = entry.node
    return node.op in FFuse and uses.count(node) == 1 and not node.control_deps
