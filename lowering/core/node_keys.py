"""A node's random numbers follow from its place among the drawing nodes of its network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

import jax

from lowering.core.rules import FLowering
from symjax_nnvm.ir.attributes import TIsBackward
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.node import Node, NodeEntry, Subgraph
from symjax_nnvm.ir.rewrite import rewrite
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.passes.gradient import GradientOf
from symjax_nnvm.passes.mirror.recompute import Recomputed, mark_rewritten

__all__ = ["fold_key", "key_places", "with_places"]


def fold_key(key: jax.Array, place: int) -> jax.Array:
    """Return a node's own key, from the call's key."""
    return jax.random.fold_in(key, place)


def with_places(outputs: Sequence[NodeEntry]) -> list[NodeEntry]:
    """Return the outputs of a network whose drawing nodes have their places (`NodeAttrs.draw_place`).

    The place of a node is its number among the drawing nodes of the network in topological order; names do not matter.
    It is given once, before any stage of the pipeline: copies take it along when stages remove nodes. In a graph of
    gradients the network is the one that they are gradients of; a mirrored copy has the place of its original, a
    backward node that of its forward node. The nodes of the bodies of one node are numbered among themselves.
    """
    places: dict[Node, int] = {}
    _number(_network(outputs), places, count())
    return _placed(outputs, places, {}) if places else list(outputs)


def key_places(index: IndexedGraph) -> dict[int, int]:
    """Return the places of a graph's drawing nodes, by number; nodes without a place come after all that have one."""
    places: dict[int, int] = {}
    unplaced: list[int] = []
    for nid, node in enumerate(index.nodes):
        if not _draws(node.source):
            continue
        place, forward = node.source.attrs.draw_place, node.control_deps[0] if node.control_deps else None
        if place is None and forward is not None and TIsBackward.get(node.source.op):
            place = places.get(forward)
        if place is None:
            unplaced.append(nid)
        else:
            places[nid] = place
    return places | dict(zip(unplaced, count(_after(places.values())), strict=False))


def _draws(node: Node) -> bool:
    rule = FLowering.get(node.attrs.op)
    return rule is not None and "key" in rule.needs


def _after(places: Iterable[int]) -> int:
    return 1 + max(places, default=-1)


def _network(outputs: Sequence[NodeEntry]) -> list[Node]:
    """Return the nodes of the networks in whose gradients the outputs are, then those of the outputs, in topological
    order."""
    heads, linked = list(outputs), set[GradientOf]()
    while True:
        nodes = post_order(heads)
        marks = dict.fromkeys(node.info for node in nodes if isinstance(node.info, GradientOf))
        new = [mark for mark in marks if mark not in linked]
        if not new:
            return nodes
        linked.update(new)
        heads = [head for mark in new for head in mark.heads] + heads


def _number(nodes: Iterable[Node], places: dict[Node, int], numbers: Iterator[int]) -> None:
    """Number those of the nodes that draw, and those of their bodies."""
    for node in nodes:
        if not _draws(node) or node in places:
            continue
        original = _original(node)
        place = places.get(original)
        places[node] = places[original] = next(numbers) if place is None else place
        bodies = [post_order(graph.outputs) for graph in node.attrs.subgraphs]
        # A backward node runs the nodes of its forward node's bodies, which have their places.
        inner = count(_after(places[one] for body in bodies for one in body if one in places))
        for body in bodies:
            _number(body, places, inner)


def _original(node: Node) -> Node:
    """Return the node whose numbers a node draws: most draw their own."""
    while True:
        if isinstance(node.info, Recomputed):
            node = node.info.original
        elif TIsBackward.get(node.op) and node.control_deps and _draws(node.control_deps[0]):
            node = node.control_deps[0]
        else:
            return node


def _placed(outputs: Sequence[NodeEntry], places: Mapping[Node, int], copies: dict[int, Subgraph]) -> list[NodeEntry]:
    """Return the outputs over nodes that have their places. copies: rewritten bodies, by the identity of the old."""

    def body(graph: Subgraph) -> Subgraph:
        if id(graph) not in copies:
            copies[id(graph)] = Graph(_placed(graph.outputs, places, copies))
        return copies[id(graph)]

    def rule(node: Node, draft: Node) -> Node | None:
        if node not in places:
            return None
        placed = node.copy() if draft is node else draft
        placed.attrs.draw_place = places[node]
        placed.attrs.subgraphs = [body(graph) for graph in node.attrs.subgraphs]
        return placed

    result = rewrite(outputs, rule)
    mark_rewritten(result)
    return result.outputs
