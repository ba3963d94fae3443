"""FuseReluGradient: a gradient takes the head gradient of the ReLU behind its operator (FFuseGradient).

What ReLU's gradient makes of that is an array as large as the data, which BatchNorm's gradient reads twice.
"""

from __future__ import annotations

from typing import TypeVar

from symjax_nnvm.ir.attributes import FFuseGradient
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.uses import Uses
from symjax_nnvm.passes.mirror.recompute import mark_rewritten

__all__ = ["fuse_relu_gradient"]

G = TypeVar("G", bound=Graph)


def fuse_relu_gradient(graph: G) -> G:
    """Return the graph with gradients of ReLU as parts of the gradients before it, where nothing else reads them; the
    same graph where there are none. Linear; reads no shapes."""
    if not any(node.op in FFuseGradient for node in graph.nodes()):
        return graph
    return apply_pass(graph, "FuseReluGradient")


@register_pass("FuseReluGradient", op_attrs=("FFuseGradient", "FActivation"), change_graph=True)
def _fuse(graph: Graph) -> Graph:
    """Fuse gradients of ReLU into the gradients before it; see `fuse_relu_gradient`."""
    uses = Uses(graph.outputs)

    def rule(node: Node, draft: Node) -> Node | None:
        is_read_once = node.op in FFuseGradient and uses.count(node.inputs[0].node) == 1
        return FFuseGradient[node.op](draft) if is_read_once else None

    result = rewrite(graph.outputs, rule, order=graph.nodes())
    mark_rewritten(result)
    unreached = frozenset(map(result.node, graph.attrs.get("unreached", ())))
    return graph.derive(result.outputs, attrs=graph.attrs | {"unreached": unreached})
