"""EliminateCommonExpr: nodes that compute the same thing become one (MXNet's `eliminate_common_expr_pass.cc`)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

from symjax_nnvm.ir.bulk import bulk_allocation
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
from symjax_nnvm.ir.op import FMutateInputs, Op, THasDeterministicOutput
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.traverse import post_order

__all__ = ["copy_repeated", "eliminate_common_expressions"]

G = TypeVar("G", bound=Graph)


def eliminate_common_expressions(graph: G) -> G:
    """The graph with equal nodes merged into the first of them; heads that become one are told apart by `_copy` nodes.

    Two nodes are equal when they have the same operator, the same attributes, the same inputs (after merging) and the
    same control dependencies; names do not count. Never merged: variables, nodes without inputs, nodes that mutate an
    input, that draw random numbers (THasDeterministicOutput is False), or that hold subgraphs.
    """
    return apply_pass(graph, "EliminateCommonExpr")


@register_pass("EliminateCommonExpr", op_attrs=("FMutateInputs", "THasDeterministicOutput"), change_graph=True)
@bulk_allocation()
def _eliminate(graph: Graph) -> Graph:
    """Merge equal nodes; see `eliminate_common_expressions`."""
    stand_in: dict[Node, Node] = {}  # a node → the one that computes it, where that is another
    kept: dict[Hashable, Node] = {}
    merged = False
    for node in post_order(graph.outputs):
        if node.is_variable:
            continue
        renewed = _renewed(node, stand_in)
        if _can_merge(renewed):
            first = kept.setdefault(_identity(renewed), renewed)
            merged |= first is not renewed
            renewed = first
        if renewed is not node:
            stand_in[node] = renewed
    if not merged:
        return graph.derive()
    heads = [entry._replace(node=stand_in.get(entry.node, entry.node)) for entry in graph.outputs]
    return graph.derive(copy_repeated(heads, "_copy", first_number=0))


def _renewed(node: Node, stand_in: dict[Node, Node]) -> Node:
    """The node itself, or a copy of it where what it reads has been merged."""
    if not any(entry.node in stand_in for entry in node.inputs) and not any(d in stand_in for d in node.control_deps):
        return node
    copy = node.copy()
    copy.inputs = [entry._replace(node=stand_in.get(entry.node, entry.node)) for entry in node.inputs]
    copy.control_deps = [stand_in.get(dep, dep) for dep in node.control_deps]
    return copy


def _can_merge(node: Node) -> bool:
    op = node.attrs.op
    return bool(
        node.inputs
        and not node.attrs.subgraphs
        and THasDeterministicOutput.get(op, True)
        and (op not in FMutateInputs or not list(FMutateInputs[op](node.attrs)))
    )


def _identity(node: Node) -> Hashable:
    return node.attrs.op, tuple(node.inputs), frozenset(node.attrs.dict.items()), tuple(node.control_deps)


def copy_repeated(entries: Sequence[NodeEntry], copy_op: str, *, first_number: int = 1) -> list[NodeEntry]:
    """The same entries, of which each that was there before becomes a copy named `{node}_{k}_copy`, k counting on."""
    op = Op.get(copy_op)
    uses: dict[NodeEntry, int] = {}
    outputs: list[NodeEntry] = []
    for entry in entries:
        count = uses.get(entry, 0)
        uses[entry] = count + 1
        if count:
            attrs = NodeAttrs(op, f"{entry.node.name}_{count - 1 + first_number}_copy")
            attrs.parse()
            entry = NodeEntry(Node(attrs, [entry]), 0, 0)
        outputs.append(entry)
    return outputs
