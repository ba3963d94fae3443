"""Automatic names, numbered anew in each network, and not by what the process made before: parameters draw numbers by
them."""

from __future__ import annotations

import re

from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol

_AUTOMATIC = re.compile(r"(.*\D)(0|[1-9]\d*)", re.DOTALL)


def names_by_rank(symbol: Symbol) -> dict[str, str]:
    """Map the variables that are called after a node with an automatic name → their names with the node's rank for its
    number.

    `fullyconnected7_weight` is `fullyconnected1_weight` where one node of the network has a smaller number after
    `fullyconnected`. A network that is built twice in one process has the same names by rank, and a network keeps them
    in its file. Names of the user's choice stay as they are, and so do numbers from 0 on without gaps. A name is
    automatic where it is the operator's in lower case and a number, after any prefix.
    """
    nodes = _every_node(symbol)
    numbers: dict[str, set[int]] = {}
    automatic: dict[Node, tuple[str, int]] = {}
    for node in nodes:
        match = _AUTOMATIC.fullmatch(node.name)
        if match is not None and not node.is_variable and match[1].lower().endswith(_hints(node)):
            automatic[node] = match[1], int(match[2])
            numbers.setdefault(match[1], set()).add(int(match[2]))
    ranks = {stem: {number: rank for rank, number in enumerate(sorted(used))} for stem, used in numbers.items()}
    names: dict[str, str] = {}
    for node, (stem, number) in automatic.items():
        for entry in node.inputs:
            name = entry.node.name
            if entry.node.is_variable and name.startswith(f"{node.name}_"):
                names[name] = f"{stem}{ranks[stem][number]}{name[len(node.name) :]}"
    chosen = {node.name for node in nodes if node.is_variable and node.name not in names}
    # A user's own `fullyconnected0_weight` beside an automatic one of rank 0: no two parameters share a name.
    return {name: f"{by_rank} " if by_rank in chosen else by_rank for name, by_rank in names.items()}


def _hints(node: Node) -> tuple[str, ...]:
    """Return the beginnings of automatic names of an operator's nodes."""
    assert node.op is not None
    return tuple(name.lower() for name in (node.op.name, *node.op.aliases))


def _every_node(symbol: Symbol) -> list[Node]:
    """Return the nodes of a network, and those of the bodies of its loops and branches, each once."""
    nodes: dict[Node, None] = {}
    pending = [symbol.outputs]
    while pending:
        for node in post_order(pending.pop()):
            if node not in nodes:
                nodes[node] = None
                pending += [graph.outputs for graph in node.attrs.subgraphs]
    return list(nodes)
