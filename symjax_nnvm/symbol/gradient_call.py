"""A symbol's call of MXGradient: the variables to differentiate by, and the head gradients where none are given."""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.errors import GradientError, listed
from symjax_nnvm.ir.listing import input_nodes, output_names
from symjax_nnvm.ir.node import Node, NodeEntry, apply, create_variable_node


def ones_for_heads(outputs: Sequence[NodeEntry]) -> list[NodeEntry]:
    """Return a head gradient of ones for every output."""
    named = zip(outputs, output_names(outputs), strict=True)
    return [apply("ones_like", entry, name=f"{name}_head_grad") for entry, name in named]


def wrt_entries(
    outputs: Sequence[NodeEntry], wrt: Sequence[str | Sequence[NodeEntry]], new_variables: bool = False
) -> list[NodeEntry]:
    """Return the entries that variable names, or entries, stand for; new_variables: a variable for an unknown name.

    Raises GradientError for an unknown or ambiguous name.
    """
    by_name: dict[str, list[Node]] = {}
    for node in input_nodes(outputs):
        by_name.setdefault(node.name, []).append(node)
    entries: list[NodeEntry] = []
    for x in wrt:
        if not isinstance(x, str):
            entries.extend(x)
            continue
        nodes = by_name.get(x, [])
        if not nodes and new_variables:
            nodes = by_name[x] = [create_variable_node(x)]
        if len(nodes) != 1:
            raise GradientError(
                f"Cannot differentiate with respect to {x!r}",
                expected=f"one of {listed(by_name)}",
                got="no variable of that name" if not nodes else f"{len(nodes)} variables of that name",
                fix=None if nodes else "Call gradient(..., zeros_if_unreachable=True) for zeros in its shape.",
            )
        entries.append(NodeEntry(nodes[0], 0, 0))
    return entries
