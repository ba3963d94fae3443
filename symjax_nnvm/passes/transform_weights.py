"""TransformWeights: nodes that transform a constant weight as a convolution's fastest algorithm needs it.

So the transformed weight is computed once, with all else that depends on constants alone. FTransformWeight makes the
nodes; ChooseAlgorithm chooses for the remaining convolutions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.attributes import FTransformWeight
from symjax_nnvm.ir.backend_token import BackendToken
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.passes.precompute_prune import Constants

G = TypeVar("G", bound=Graph)


def transform_weights(
    graph: G,
    constants: Collection[str],
    backend: BackendToken,
    *,
    shapes: Mapping[str, Shape],
    dtypes: Mapping[str, DType] | None = None,
) -> G:
    """Return the graph with algorithms that transform constant weights first; itself where there are none.

    constants: names of variables. shapes, dtypes: what is known of the variables by name; without any dtype float32 is
    meant. backend: what computes the graph. A graph with contradictions is returned as it is; lowering it raises the
    error. Linear.
    """
    fixed = Constants(graph, constants)
    nodes = [n for n in graph.nodes() if n.op in FTransformWeight and n.inputs[1].node in fixed]
    if not nodes:
        return graph
    index = graph.indexed_graph()
    names = set(index.input_names)
    try:
        inferred = infer_shape(graph, shapes={n: s for n, s in shapes.items() if n in names}).attrs["shape"]
        kinds = infer_type(graph, dtypes={n: t for n, t in (dtypes or {}).items() if n in names}).attrs["dtype"]
    except InferenceError:
        return graph
    targets = set(nodes)

    def rule(node: Node, draft: Node) -> NodeEntry | None:
        if node not in targets:
            return None
        data = index.entry_id(node.inputs[0])
        shape = tuple(n for n in inferred[data] or () if n is not None)
        if len(shape) != len(inferred[data] or ()) or not shape:
            return None
        return FTransformWeight[node.op](draft, shape, kinds[data] or "float32", backend)

    rewritten = rewrite(graph.outputs, rule, order=graph.nodes())
    return graph.derive(rewritten.outputs) if rewritten.changed else graph
