"""FuseConvolution: sums and activations after a convolution are done in the pass that writes its result.

NNVM's compiler has it as GraphFuse. A convolution with channels last takes what alone reads it: the sum with another
array (TAdds), and then an activation (FActivation), as operators' cards say.
"""

from __future__ import annotations

from typing import TypeVar

from symjax_nnvm.ir.card import FActivation, TAdds
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.match import Uses
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ops.nn.fused_convolution import epilogue_of, fused

__all__ = ["fuse_convolution"]

G = TypeVar("G", bound=Graph)


def fuse_convolution(graph: G) -> G:
    """The graph with what follows convolutions done by them, where nobody else reads their results; the same graph
    where there are none. Linear; reads no shapes."""
    if not any(_convolves(node) for node in graph.nodes()):
        return graph
    return apply_pass(graph, "FuseConvolution")


@register_pass("FuseConvolution", op_attrs=("TAdds", "FActivation"), change_graph=True)
def _fuse(graph: Graph) -> Graph:
    """Sums and activations done by the convolutions before them; see `fuse_convolution`."""
    uses = Uses(graph.outputs)

    def rule(node: Node, draft: Node) -> Node | None:
        made = _with_sum(draft, uses) or _with_activation(draft, uses)
        uses.replace(node, draft, made or draft)
        return made

    return graph.derive(rewrite(graph.outputs, rule, order=graph.nodes()).outputs)


def _with_sum(node: Node, uses: Uses) -> Node | None:
    if node.op not in TAdds or node.control_deps:
        return None
    for entry, other in (node.inputs, node.inputs[::-1]):
        if _is_open(entry, uses) and not epilogue_of(entry.node).addend:
            return fused(entry.node, node, addend=other)
    return None


def _with_activation(node: Node, uses: Uses) -> Node | None:
    if node.op not in FActivation or node.control_deps or not _is_open(node.inputs[0], uses):
        return None
    act_type = FActivation[node.op](node.attrs)
    return fused(node.inputs[0].node, node, act_type=act_type) if act_type else None


def _is_open(entry: NodeEntry, uses: Uses) -> bool:
    """Whether an entry is a convolution that one node reads and that does not end on an activation yet."""
    node = entry.node
    return _convolves(node) and uses.of(node) == 1 and not epilogue_of(node).act_type and not node.control_deps


def _convolves(node: Node) -> bool:
    return node.op is not None and node.op.name in ("_channels_last_convolution", "_fused_convolution")
