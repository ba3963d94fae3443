"""Blocks of a graph, cut where little crosses: mirroring by blocks keeps the arrays that cross a cut.

With n alike layers and √n blocks, √n boundaries are kept and √n layers computed again at a time: memory falls from n
to 2√n for one more forward pass (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.types import Shape, ShapeList


def block_numbers(
    ys: Sequence[NodeEntry], order: Sequence[Node], shapes: Mapping[str, Shape | None] | None
) -> dict[Node, int]:
    """Return the block of every operator node, from 0 on, in the given topological order.

    Of three numbers of blocks around √n, that which keeps least at the worst moment. Linear in nodes + edges.
    """
    nodes = [node for node in order if not node.is_variable]
    sizes = _sizes(ys, nodes, shapes)
    spans = _spans(nodes)
    crossing = _crossing(len(nodes), spans, sizes)
    weights = [sum(sizes[node]) for node in nodes]
    root = math.isqrt(max(len(nodes) - 1, 0)) + 1
    cuts = min(
        (_cuts(weights, crossing, count) for count in dict.fromkeys((root, 2 * root, max(root // 2, 1)))),
        key=lambda cuts: _peak(cuts, weights, spans, sizes, nodes),
    )
    return {node: bisect_left(cuts, i) for i, node in enumerate(nodes)}


def _sizes(
    ys: Sequence[NodeEntry], nodes: Sequence[Node], shapes: Mapping[str, Shape | None] | None
) -> dict[Node, list[int]]:
    """Return elements of every output; 1 each when some shape is not known."""
    graph = Graph(ys)
    index = graph.indexed_graph()
    input_shapes = [(shapes or {}).get(index.nodes[nid].source.name) for nid in index.input_nodes]
    graph.attrs |= {"shape_inputs": ShapeList(input_shapes), "shape_attr_key": "__shape__"}
    inferred = apply_pass(graph, "MXInferShape").attrs["shape"]
    sizes: dict[Node, list[int]] = {}
    for node in nodes:
        nid = index.node_id(node)
        outputs = inferred[index.entry_rptr[nid] : index.entry_rptr[nid + 1]]
        if any(shape is None or None in shape for shape in outputs):
            return {node: [1] * node.num_outputs() for node in nodes}
        sizes[node] = [math.prod(shape) for shape in outputs]
    return sizes


Spans = list[tuple[int, int, Node, int]]
"""(position where an entry is made, position of its last reader, its node, its index)"""


def _spans(nodes: Sequence[Node]) -> Spans:
    position = {node: i for i, node in enumerate(nodes)}
    last: dict[tuple[Node, int], int] = {}
    for i, node in enumerate(nodes):
        for entry in node.inputs:
            if entry.node in position:
                last[entry.node, entry.index] = i
    return [(position[node], reader, node, index) for (node, index), reader in last.items()]


def _crossing(count: int, spans: Spans, sizes: Mapping[Node, list[int]]) -> list[int]:
    """Return elements that are made at or before each position and read after it."""
    changes = [0] * (count + 1)
    for written, read, node, index in spans:
        changes[written] += sizes[node][index]
        changes[read] -= sizes[node][index]
    return list(accumulate(changes))[:count]


def _cuts(weights: Sequence[int], crossing: Sequence[int], count: int) -> list[int]:
    """Return positions after which a block ends: the narrowest place between 0.5 and 1.5 shares of all weight."""
    share = sum(weights) / count
    cuts: list[int] = []
    start = 0
    while (window := list(_window(weights, start, share))) and window[-1][0] < len(weights) - 1:
        cuts.append(min(window, key=lambda place: (crossing[place[0]], abs(place[1] - share)))[0])
        start = cuts[-1] + 1
    return cuts


def _window(weights: Sequence[int], start: int, share: float) -> Iterator[tuple[int, int]]:
    """Yield (position, weight so far) where a block from `start` may end; else the first place past the limit."""
    total = 0
    for i in range(start, len(weights)):
        total += weights[i]
        if total >= share / 2:
            yield i, total
        if total >= share * 1.5:
            return


def _peak(
    cuts: Sequence[int], weights: Sequence[int], spans: Spans, sizes: Mapping[Node, list[int]], nodes: Sequence[Node]
) -> int:
    """Return the memory held at the worst moment: all arrays that cross a cut, and the largest block."""
    before = [bisect_left(cuts, i) for i in range(len(nodes))]
    crossing = sum(sizes[node][index] for written, read, node, index in spans if before[written] != before[read])
    totals = [0, *accumulate(weights)]
    edges = [0, *(cut + 1 for cut in cuts), len(nodes)]
    return crossing + max(totals[end] - totals[start] for start, end in pairwise(edges))
