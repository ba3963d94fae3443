"""ChooseAlgorithm: choose the algorithm of each convolution and each gradient of one, in loops' bodies, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.geometry import Machine
from symjax_nnvm.ir.card import FAlgorithm
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.passes.subgraphs import Known, in_subgraphs

__all__ = ["algorithm_of", "choose_algorithm"]

G = TypeVar("G", bound=Graph)


def choose_algorithm(graph: G, machine: Machine, known: Known) -> G:
    """The graph with an attribute "algorithm": the name of an algorithm by node, of the nodes whose operators have
    FAlgorithm and whose shapes are known; those of subgraphs included.

    Where shapes are not known yet, or contradict each other, lowering asks `algorithm_of` when it knows them. Linear.
    """
    chosen: dict[Node, str] = {}
    todo: list[tuple[Graph, Known]] = [(graph, known)]

    def inside(body: Graph, facts: Known) -> Graph:
        todo.append((body, facts))
        return body

    while todo:
        each, facts = todo.pop()
        in_subgraphs(each, facts, inside)
        chosen.update(_chosen(each, machine, facts))
    return graph.derive(attrs={**graph.attrs, "algorithm": chosen})


def _chosen(graph: Graph, machine: Machine, known: Known) -> dict[Node, str]:
    nodes = [node for node in graph.nodes() if node.op in FAlgorithm]
    if not nodes:
        return {}
    index = graph.indexed_graph()
    names = set(index.input_names)
    try:
        given = {name: shape for name, shape in known.shapes or () if name in names}
        shapes = infer_shape(graph, shapes=given).attrs["shape"]
        dtypes = infer_type(graph, dtypes={n: t for n, t in known.dtypes or () if n in names}).attrs["dtype"]
    except InferenceError:  # is told where the graph is lowered
        return {}
    found: dict[Node, str] = {}
    for node in nodes:
        inputs = [index.entry_id(entry) for entry in node.inputs]
        name = algorithm_of(node, [shapes[i] for i in inputs], dtypes[inputs[0]] or "float32", machine)
        if name is not None:
            found[node] = name
    return found


def algorithm_of(node: Node, shapes: Sequence[Shape | None], dtype: DType, machine: Machine) -> str | None:
    """The algorithm of a node with inputs of these shapes, the first of this dtype; None where none is chosen, or the
    shapes are not all known."""
    sizes = [tuple(size for size in shape or () if size is not None) for shape in shapes]
    if any(shape is None or len(shape) != len(known) for shape, known in zip(shapes, sizes, strict=True)):
        return None
    return FAlgorithm[node.op](node.attrs, sizes, dtype, machine) if node.op in FAlgorithm else None
