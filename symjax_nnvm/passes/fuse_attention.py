"""FuseAttention: products, softmax and products of attention in half precision are one operator, cuDNN's kernel.

What attention is made of, and of which sizes the kernel takes it, `ops/nn/fused_attention.py` says.
"""

from __future__ import annotations

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.types import DType
from symjax_nnvm.ir.uses import Uses
from symjax_nnvm.ops.nn.fused_attention import Facts, attention_of, is_mixture
from symjax_nnvm.passes.choose_algorithm import inferred
from symjax_nnvm.passes.subgraphs import Known

__all__ = ["fuse_attention"]


def fuse_attention(graph: Graph, known: Known) -> Graph:
    """Return the graph with attentions fused whose sizes and dtypes are known; the same one where there are none.

    known: shapes and dtypes of variables by name. Nothing is differentiated by the fused operator. Linear.
    """
    values = inferred(graph, known) if any(map(is_mixture, graph.nodes())) else None
    if values is None:
        return graph
    index = graph.indexed_graph()
    ids = {node: [index.entry_id(NodeEntry(node, i)) for i in range(node.num_outputs())] for node in graph.nodes()}
    uses = Uses(graph.outputs)

    def shape(entry: NodeEntry) -> tuple[int, ...]:
        sizes = values[0][ids[entry.node][entry.index]] or ()
        return tuple(size for size in sizes if size) if all(sizes) else ()

    def dtype(entry: NodeEntry) -> DType | None:
        return values[1][ids[entry.node][entry.index]]

    facts = Facts(shape, dtype, uses.count)

    def rule(node: Node, draft: Node) -> NodeEntry | None:
        ids[draft] = ids[node]
        fused = attention_of(draft, facts) if is_mixture(node) and not node.control_deps else None
        uses.replace(node, draft, fused or draft)
        if fused is not None:
            ids[fused.node] = ids[node]
        return fused

    rewritten = rewrite(graph.outputs, rule, order=graph.nodes())
    return graph.derive(rewritten.outputs) if rewritten.changed else graph
