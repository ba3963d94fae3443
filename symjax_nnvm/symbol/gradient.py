"""What a symbol asks of MXGradient: which gradients, from which head gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from symjax_nnvm.errors import GradientError, explain, listed
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, apply, create_variable_node
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.traverse import post_order

if TYPE_CHECKING:
    from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["gradient_entries", "ones_for_heads", "shaped_zeros", "wrt_entries"]


def gradient_entries(
    symbol: Symbol, xs: Sequence[NodeEntry], head_grads: Sequence[NodeEntry], zeros_if_unreachable: bool = False
) -> list[NodeEntry]:
    """The gradients of a symbol's outputs with respect to entries; zeros of the right shape where none flows.

    zeros_if_unreachable: zeros, not an error, for entries that the outputs do not depend on. Raises GradientError.
    """
    if len(head_grads) != len(symbol.outputs):
        raise GradientError(
            explain(
                "Wrong number of head gradients",
                expected=f"{len(symbol.outputs)}, one for each of {listed(symbol.list_outputs())}",
                got=len(head_grads),
            )
        )
    found = _reachable(symbol, xs) if zeros_if_unreachable else [True] * len(xs)
    asked = [x for x, reached in zip(xs, found, strict=True) if reached]
    request = {
        "grad_ys": list(symbol.outputs),
        "grad_xs": asked,
        "grad_ys_out_grad": list(head_grads),
        "attr_hint_fun": shaped_zeros,
        "zero_ops": [Op.get("zeros_like"), Op.get("_zeros")],
    }
    grads = iter(apply_pass(Graph(symbol.outputs, request), "MXGradient").outputs)
    return [next(grads) if reached else _zeros_of(x) for x, reached in zip(xs, found, strict=True)]


def shaped_zeros(grad: NodeEntry, like: NodeEntry) -> NodeEntry:
    """Attribute hint for MXGradient: where no gradient flows, zeros of the entry's own shape and dtype."""
    if grad.node.op not in (Op.get("_zeros"), Op.get("_zeros_without_dtype")):
        return grad
    return _zeros_of(like)


def _zeros_of(entry: NodeEntry) -> NodeEntry:
    return apply("zeros_like", entry, name=f"{entry.node.name}_zero_grad")


def ones_for_heads(symbol: Symbol) -> list[NodeEntry]:
    """A head gradient of ones for every output."""
    named = zip(symbol.outputs, symbol.list_outputs(), strict=True)
    return [apply("ones_like", entry, name=f"{name}_head_grad") for entry, name in named]


def _reachable(symbol: Symbol, xs: Sequence[NodeEntry]) -> list[bool]:
    """Whether the outputs depend on each entry."""
    nodes = set(post_order(symbol.outputs))
    return [x.node in nodes for x in xs]


def wrt_entries(symbol: Symbol, wrt: Sequence[str | Symbol], new_variables: bool = False) -> list[NodeEntry]:
    """The entries that variable names or symbols stand for; new_variables: a variable for an unknown name.

    Raises GradientError for an unknown or ambiguous name.
    """
    by_name: dict[str, list[Node]] = {}
    for node in symbol.list_input_nodes("all"):
        by_name.setdefault(node.name, []).append(node)
    entries: list[NodeEntry] = []
    for x in wrt:
        if not isinstance(x, str):
            entries.extend(x.outputs)
            continue
        nodes = by_name.get(x, [])
        if not nodes and new_variables:
            nodes = by_name[x] = [create_variable_node(x)]
        if len(nodes) != 1:
            raise GradientError(
                explain(
                    f"Cannot differentiate with respect to {x!r}",
                    expected=f"one of {listed(by_name)}",
                    got="no variable of that name" if not nodes else f"{len(nodes)} variables of that name",
                    fix=None if nodes else "Call gradient(..., zeros_if_unreachable=True) for zeros in its shape.",
                )
            )
        entries.append(NodeEntry(nodes[0], 0, 0))
    return entries
