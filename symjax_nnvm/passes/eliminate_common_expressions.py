"""EliminateCommonExpr: nodes that compute the same thing become one (MXNet's `eliminate_common_expr_pass.cc`)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

from symjax_nnvm.ir.attributes import FMutateInputs, THasDeterministicOutput
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.pass_registry import apply_pass, register_pass
from symjax_nnvm.ir.rewrite import rewrite

G = TypeVar("G", bound=Graph)


def eliminate_common_expressions(graph: G) -> G:
    """Return the graph with equal nodes merged into the first of them; `_copy` nodes keep equal heads distinct.

    Two nodes are equal when they have the same operator, the same attributes, the same inputs (after merging) and the
    same control dependencies; names do not count. Never merged: variables, nodes without inputs, nodes that mutate an
    input, that draw random numbers (THasDeterministicOutput is False), or that hold subgraphs.
    """
    return apply_pass(graph, "EliminateCommonExpr")


@register_pass("EliminateCommonExpr", op_attrs=("FMutateInputs", "THasDeterministicOutput"), change_graph=True)
def _eliminate(graph: Graph) -> Graph:
    """Merge equal nodes; see `eliminate_common_expressions`."""
    first: dict[Hashable, Node] = {}

    def merge(node: Node, draft: Node) -> Node:
        return first.setdefault(_identity(draft), draft) if _can_merge(draft) else draft

    merged = rewrite(graph.outputs, merge, order=graph.nodes())
    if not merged.changed:
        return graph.derive()
    return graph.derive(copy_repeated(merged.outputs, "_copy", first_number=0))


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
    """Return the entries, where each repeated one becomes a copy named `{node}_{k}_copy`, k counting on."""
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
