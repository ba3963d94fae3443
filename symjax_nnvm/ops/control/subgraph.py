"""Pieces that operators with subgraphs share: inference inside a subgraph, and its gradient as a subgraph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import input_nodes, subgraph_variables
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, Subgraph, apply, create_variable_node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import value_to_text
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.register import register_op, same_shape, same_type
from symjax_nnvm.ir.rules.entry_gradients import gradient_entries
from symjax_nnvm.ir.types import DTypeList, Shape, ShapeList


@dataclass(frozen=True)
class SubgraphInference:
    """Inference of one quantity through subgraphs; the instances are SHAPES, DTYPES and DEFAULT_DTYPES.

    merge: combines several values. slice: the value of an array → that of its slices along axis 0.
    stack: (length, the value of a slice, what is known of the stacked array) → that of the stacked array.
    decides: whether operators inside may decide what nothing else does; the graph outside comes first.
    """

    name: str
    pass_name: str
    result: Callable[[Sequence[Any]], Any]
    rule: Callable[..., tuple[Sequence[Any], Sequence[Any]]]
    slice: Callable[[Any], Any]
    stack: Callable[[int | None, Any], Any]
    length: Callable[[Any], int | None]
    decides: bool = False

    def merge(self, *values: Any) -> Any:
        """Merge values; the pass finds contradictions."""
        return self.rule(None, values, ())[0][0] if values else None

    def inside(self, graph: Subgraph, variables: Sequence[Any], heads: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Infer a subgraph from what is known of its variables and heads; returns both, better known."""
        hints = {entry: value for entry, value in zip(graph.outputs, heads, strict=True) if value is not None}
        fed = dict(zip(subgraph_variables(graph), variables, strict=True))
        request = {
            f"{self.name}_inputs": self.result([fed[node] for node in input_nodes(graph.outputs)]),
            f"{self.name}_hints": hints,
            f"{self.name}_attr_key": f"__{self.name}__",
            f"{self.name}_defaults": self.decides,
        }
        inferred = apply_pass(Graph(graph.outputs, request), self.pass_name)
        index, values = inferred.indexed_graph(), inferred.attrs[self.name]
        fed |= {index.nodes[nid].source: values[index.entry_rptr[nid]] for nid in index.input_nodes}
        return list(fed.values()), [values[index.entry_id(entry)] for entry in graph.outputs]


def _stacked(length: int | None, shape: Shape | None) -> Shape | None:
    return None if shape is None else (length, *shape)


SHAPES = SubgraphInference(
    "shape",
    "MXInferShape",
    ShapeList,
    same_shape,
    slice=lambda shape: None if shape is None else shape[1:] or (1,),  # MXNet's slices of a vector have one axis
    stack=_stacked,
    length=lambda shape: shape[0] if shape else None,
)

DTYPES = SubgraphInference(
    "dtype",
    "MXInferType",
    DTypeList,
    same_type,
    slice=lambda dtype: dtype,
    stack=lambda length, dtype: dtype,
    length=lambda dtype: None,
)


DEFAULT_DTYPES = replace(DTYPES, decides=True)


Rule = Callable[[SubgraphInference, NodeAttrs, Sequence[Any], Sequence[Any]], Any]
"""One rule for shapes and dtypes: (what is inferred, attributes, ins, outs) → (ins, outs)."""


def register_control(
    name: str, graphs: Sequence[str], rule: Rule, sizes: Callable[[Any], Sequence[tuple[int, int]]], **card: Any
) -> None:
    """Register an operator that runs subgraphs, inputs called `graphs`, before `data0`, `data1`, …

    sizes: parameters → of each subgraph, how many variables and heads it has. card: the rest.
    """
    numbers = tuple(range(len(graphs)))
    register_op(
        name,
        variadic="num_args",
        list_inputs=lambda attrs: [*graphs, *(f"data{i}" for i in range(attrs.parsed.num_args - len(graphs)))],
        infer_type=None,
        drawing="recurrent",
        FInputGraph=lambda attrs: numbers,
        FSubgraphSizes=lambda attrs: sizes(attrs.parsed),
        FInferShape=lambda attrs, ins, outs: rule(SHAPES, attrs, ins, outs),
        FInferType=lambda attrs, ins, outs: rule(DTYPES, attrs, ins, outs),
        FInferDefaultType=lambda attrs, ins, outs: rule(DEFAULT_DTYPES, attrs, ins, outs),
        **card,
    )


_ZEROS = ("zeros_like", "_zeros")


def is_zero(entry: NodeEntry) -> bool:
    """Whether a gradient is known to be zero when the graph is built."""
    op = entry.node.op
    return op is not None and op.name in _ZEROS


@dataclass(frozen=True)
class Head:
    """A head gradient of a subgraph: the variable that stands for it inside, None where it is zero."""

    variable: NodeEntry | None

    @staticmethod
    def of_gradient(gradient: NodeEntry, name: str) -> Head:
        """A fresh variable for a head gradient from outside."""
        return Head(None if is_zero(gradient) else NodeEntry(create_variable_node(name), 0, 0))


def gradient_inside(graph: Subgraph, heads: Sequence[Head]) -> list[NodeEntry]:
    """The gradients of a subgraph's heads with respect to its variables, in order, as entries over the same nodes."""
    head_grads = [
        apply("zeros_like", entry) if head.variable is None else head.variable
        for head, entry in zip(heads, graph.outputs, strict=True)
    ]
    variables = [NodeEntry(node, 0, 0) for node in subgraph_variables(graph)]
    return gradient_entries(graph.outputs, variables, head_grads, zeros_if_unreachable=True)


def subgraph_node(
    op: str, name: str, graphs: Sequence[Subgraph], inputs: Iterable[NodeEntry], origin: Node, **params: object
) -> Node:
    """A node with subgraphs, the backward of `origin`: it draws the random numbers that `origin` draws."""
    inputs = list(inputs)
    texts = {key: value_to_text(value) for key, value in params.items()}
    texts["num_args"] = str(len(graphs) + len(inputs))
    node = Node(NodeAttrs(Op.get(op), name, texts, subgraphs=list(graphs)), inputs, [origin])
    node.attrs.parse()
    return node
