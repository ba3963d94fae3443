"""ChooseAlgorithm: choose the algorithm of each convolution and each gradient of one, in loops' bodies, too."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TypeVar

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.attributes import FAlgorithm
from symjax_nnvm.ir.backend_token import BackendToken
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.passes.subgraphs import Known, in_subgraphs

__all__ = ["UNCHOSEN", "algorithm_of", "are_known", "choose_algorithm", "inferred", "nodes_with_shapes"]

G = TypeVar("G", bound=Graph)

UNCHOSEN = "xla"
"""The algorithm where none was chosen: the compiler's own."""


def choose_algorithm(graph: G, backend: BackendToken, facts: Known) -> G:
    """Return the graph with an attribute "algorithm": the name of an algorithm by node, of the nodes whose operators
    have FAlgorithm and whose shapes are known; those of subgraphs included.

    Where shapes are not known yet, or contradict each other, lowering calls `algorithm_of` once they are known. Linear.
    """
    chosen = {
        node: name
        for node, shapes, dtype in nodes_with_shapes(graph, facts, FAlgorithm)
        if (name := algorithm_of(node, shapes, dtype, backend)) is not None
    }
    return graph.derive(attrs={**graph.attrs, "algorithm": chosen})


def nodes_with_shapes(
    graph: Graph, outer_facts: Known, operators: Container[Op]
) -> Iterator[tuple[Node, list[Shape | None], DType]]:
    """Yield the nodes of some operators, with the shapes of their inputs and the dtype of the first; those of
    subgraphs after those of the graph that holds them. Of a graph whose shapes contradict each other none."""
    todo: list[tuple[Graph, Known]] = [(graph, outer_facts)]

    def inside(body: Graph, facts: Known) -> Graph:
        todo.append((body, facts))
        return body

    for current, facts in todo:
        in_subgraphs(current, facts, inside)
        nodes = [node for node in current.nodes() if node.op is not None and node.op in operators]
        values = inferred(current, facts) if nodes else None
        if values is None:
            continue
        index = current.indexed_graph()
        for node in nodes:
            inputs = [index.entry_id(entry) for entry in node.inputs]
            yield node, [values[0][i] for i in inputs], values[1][inputs[0]] or "float32"


def inferred(graph: Graph, facts: Known) -> tuple[Sequence[Shape | None], Sequence[DType | None]] | None:
    """Return the shapes and dtypes of a graph's entries, by their numbers; None where they contradict each other."""
    names = set(graph.indexed_graph().input_names)
    try:
        shapes = infer_shape(graph, shapes={n: s for n, s in facts.shapes or () if n in names})
        dtypes = infer_type(graph, dtypes={n: t for n, t in facts.dtypes or () if n in names})
    except InferenceError:  # raised when the graph is lowered
        return None
    return shapes.attrs["shape"], dtypes.attrs["dtype"]


def are_known(shapes: Iterable[Shape | None]) -> bool:
    """Return whether every size of every shape is known."""
    return all(shape is not None and None not in shape for shape in shapes)


def algorithm_of(node: Node, shapes: Sequence[Shape | None], dtype: DType, backend: BackendToken) -> str | None:
    """Return the algorithm of a node with inputs of these shapes, the first of this dtype; None where none is chosen,
    or the shapes are not all known."""
    if not are_known(shapes) or node.op not in FAlgorithm:
        return None
    sizes = [tuple(size for size in shape or () if size is not None) for shape in shapes]
    return FAlgorithm[node.op](node.attrs, sizes, dtype, backend)
