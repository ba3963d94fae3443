"""What MXNet's `infer_shape_partial` leaves open: there an operator infers nothing before its data's shape.

Shapes here are inferred from what is known, in both directions, and `symjax_nnvm`'s symbols report all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from symjax_nnvm.ir.attributes import FInplaceOption
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph, IndexedNode
from symjax_nnvm.ir.node import NodeEntry
from symjax_nnvm.ir.types import Shape, is_known

Shapes = Sequence[Shape | None]


def _all_known(shapes: Shapes) -> bool:
    return all(map(is_known, shapes))


def _first_known(shapes: Shapes) -> bool:
    return is_known(shapes[0])


def _matrices_known(shapes: Shapes) -> bool:
    return all(shape is not None and is_known(shape[1:]) for shape in shapes)


_NEEDED_BY: dict[str, Callable[[Shapes], bool]] = {
    **dict.fromkeys(("where", "take", "stack", "gather_nd"), _all_known),
    **dict.fromkeys(("Flatten", "LRN", "argmax", "argmin", "norm", "one_hot", "squeeze", "tile"), _first_known),
    **dict.fromkeys(("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput"), _first_known),
    "SpatialTransformer": _first_known,
    "batch_dot": _matrices_known,
}
"""Operators that infer nothing before sizes of their inputs are known; others need only the rank of the first."""


def shapes_mxnet_reports(
    outputs: Sequence[NodeEntry], entries: Shapes, known_shapes: Mapping[str, Shape | None]
) -> list[Shapes]:
    """Shapes of (arguments, outputs, auxiliary states), None where MXNet reports none.

    entries: what is inferred, for each entry of the graph of `outputs`. known_shapes: those of variables that the
    caller gave.
    """
    index = Graph(outputs).indexed_graph()
    inferred = _inferred(index, entries, known_shapes)
    shown = [shape if is_inferred else None for shape, is_inferred in zip(entries, inferred, strict=True)]
    variables = [(nid in index.mutable_input_nodes, shown[index.entry_rptr[nid]]) for nid in index.input_nodes]
    heads = [shown[index.entry_id(head)] for head in index.outputs]
    return [[shape for state, shape in variables if not state], heads, [shape for state, shape in variables if state]]


def _inferred(index: IndexedGraph, shapes: Shapes, known_shapes: Mapping[str, Shape | None]) -> list[bool]:
    """Return whether MXNet would report the shape of each entry."""
    inferred, shapes = [False] * index.num_node_entries, list(shapes)
    for nid in index.input_nodes:
        node = index.nodes[nid].source
        inferred[index.entry_rptr[nid]] = node.name in known_shapes or "__shape__" in node.attrs.dict
        if node.name in known_shapes:  # not what follows from other inputs
            shapes[index.entry_rptr[nid]] = known_shapes[node.name]
    operators = [(nid, node) for nid, node in enumerate(index.nodes) if not node.source.is_variable]
    for nid, node in chain(operators, reversed(operators), operators):
        inputs, states = [index.entry_id(entry) for entry in node.inputs], index.mutated_inputs.get(nid, ())
        arguments = [entry for i, entry in enumerate(inputs) if i not in states]
        outputs = range(index.entry_rptr[nid], index.entry_rptr[nid + 1])
        ranked = lambda entry: inferred[entry] and shapes[entry] is not None  # noqa: E731
        if _mxnet_infers(node, arguments, outputs, shapes, ranked):
            for entry in (*inputs, *outputs):
                inferred[entry] = True
    return inferred


def _mxnet_infers(
    node: IndexedNode, inputs: Sequence[int], outputs: Sequence[int], shapes: Shapes, ranked: Callable[[int], bool]
) -> bool:
    """Return whether MXNet's operator infers anything. ranked: whether the rank of an entry is inferred."""
    op = node.source.op
    assert op is not None
    ready = _NEEDED_BY.get(op.name)
    if ready is not None:
        return all(map(ranked, inputs[:1])) and ready([shapes[entry] if ranked(entry) else None for entry in inputs])
    if FInplaceOption.get(op) is not None:  # of one shape with its output
        return any(map(ranked, (*inputs, *outputs)))
    return not inputs or ranked(inputs[0])
