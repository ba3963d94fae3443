"""The boxes and arrows of a graph: operators are boxes; repeated blocks, drawn once, and subgraphs are frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from symjax_nnvm.drawing.description import Arrow, Border, Box, Drawing
from symjax_nnvm.drawing.long_arrows import uncrowded
from symjax_nnvm.drawing.text_width import shortened
from symjax_nnvm.errors import printable
from symjax_nnvm.ir.indexed_graph import IndexedEntry, IndexedGraph
from symjax_nnvm.ir.node import Node, Subgraph
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.viz.plot_style import colour_of, facts
from symjax_nnvm.viz.repeated_blocks import RepeatedRun, common_start, repeated_blocks

Shapes = Sequence[Shape | None]

_LONGEST = 48  # characters of a line in a box
_FACT = 200  # characters of one fact


@dataclass(frozen=True)
class Drawn:
    """A drawing. drawn: how many operators are in it. folded: how many a drawn one stands for."""

    drawing: Drawing
    drawn: int
    folded: int


def draw_graph(
    title: str, index: IndexedGraph, shapes: Shapes | None, data: set[str], *, hide_weights: bool, fold: bool
) -> Drawn:
    """Draw a graph, and the graphs that its nodes run.

    shapes: one per entry. data: names of the variables that are drawn; others are parameters.
    """
    canvas = _Canvas(hide_weights, fold)
    pending: list[tuple[IndexedGraph, Shapes | None, set[str], Node | None, str, int | None]]
    pending = [(index, shapes, data, None, "", None)]
    while pending:  # subgraphs wait on a stack: graphs are not as shallow as Python's
        inner, inner_shapes, names, runner, key, frame = pending.pop()
        if runner is not None:
            frame = canvas.frame((f"run by {runner.name}",), frame)
        for node, ident, subgraph, inside in reversed(canvas.graph(inner, inner_shapes, names, key, frame)):
            body = IndexedGraph(subgraph.outputs)
            read = {body.nodes[nid].source.name for nid in body.input_nodes}
            pending.append((body, None, read, node, ident, inside))
    drawing = Drawing(printable(title), tuple(canvas.boxes), tuple(canvas.frames), tuple(canvas.arrows))
    return Drawn(uncrowded(drawing), canvas.drawn, canvas.folded)


class _Canvas:
    """The boxes, frames and arrows drawn so far."""

    def __init__(self, hide_weights: bool, fold: bool):
        self.boxes: list[Box] = []
        self.frames: list[Border] = []
        self.arrows: list[Arrow] = []
        self.drawn = self.folded = 0
        self._hide_weights, self._fold = hide_weights, fold
        self._graphs = 0
        self._seen: set[int] = set()

    def frame(self, lines: tuple[str, ...], parent: int | None) -> int:
        """Add a frame; returns its number."""
        self.frames.append(Border(tuple(map(printable, lines)), parent))
        return len(self.frames) - 1

    def graph(
        self, index: IndexedGraph, shapes: Shapes | None, data: set[str], runner: str, frame: int | None
    ) -> list[tuple[Node, str, Subgraph, int | None]]:
        """Draw one graph, whose heads go to the box `runner` where there is one. Returns the subgraphs that are still
        to be drawn: for each the node that runs it, the node's key, the subgraph, and the frame that the node is in."""
        self._graphs += 1
        graph = _OneGraph(self._graphs, index, shapes, data)
        nids = [nid for nid, node in enumerate(index.nodes) if not node.source.is_variable]
        runs = repeated_blocks(index, shapes) if self._fold else []
        stands_for = _representatives(nids, runs)
        heads = {stands_for.get(head.node_id, head.node_id) for head in index.outputs}
        self.boxes += [graph.input(nid, nid in heads, frame) for nid in graph.inputs()]
        starts = {run.start: run for run in runs}
        subgraphs: list[tuple[Node, str, Subgraph, int | None]] = []
        place = 0
        while place < len(nids):
            run = starts.get(place)
            inside = frame if run is None else self.frame(graph.run_lines(nids, run), frame)
            end = place + (run.length if run else 1)
            for nid in nids[place:end]:
                node = index.nodes[nid].source
                self.boxes.append(graph.operator(nid, nid in heads, inside, not self._hide_weights))
                self.arrows += graph.arrows(nid, stands_for)
                subgraphs += [(node, graph.key(nid), s, inside) for s in node.attrs.subgraphs if self._first_time(s)]
            self.drawn += end - place
            self.folded += run.end - end if run else 0
            place = run.end if run else end
        if runner:
            self.arrows += dict.fromkeys(Arrow(graph.key(head), runner, dashed=True) for head in sorted(heads))
        return subgraphs

    def _first_time(self, subgraph: Subgraph) -> bool:
        """Return whether a subgraph has not been drawn: several nodes may run one."""
        fresh = id(subgraph) not in self._seen
        self._seen.add(id(subgraph))
        return fresh


@dataclass(frozen=True)
class _OneGraph:
    """Draws one graph's nodes as boxes and arrows. data: the variables that are drawn."""

    number: int
    index: IndexedGraph
    shapes: Shapes | None
    data: set[str]

    def key(self, nid: int) -> str:
        """Return the key of a node's box."""
        return f"g{self.number}n{nid}"

    def inputs(self) -> list[int]:
        """Return the variables that are drawn."""
        return [nid for nid in self.index.input_nodes if self.index.nodes[nid].source.name in self.data]

    def input(self, nid: int, head: bool, frame: int | None) -> Box:
        """Return the oval of a variable."""
        name = printable(self.index.nodes[nid].source.name)
        fact_text = " ".join(filter(None, (shortened(name, _FACT), self._size(IndexedEntry(nid, 0, 0)))))
        return Box(self.key(nid), (shortened(name, _LONGEST),), colour_of(None), fact_text, True, head, frame)

    def operator(self, nid: int, head: bool, frame: int | None, weights: bool) -> Box:
        """Return an operator's box: its operator, its name and, on request, its parameters."""
        node = self.index.nodes[nid].source
        assert node.op is not None
        text = [" ".join(filter(None, (node.op.name, facts(node)))), node.name]
        if weights:
            text += [line for _, line in self._parameters(nid)]
        lines = tuple(shortened(printable(line), _LONGEST) for line in text if line)
        return Box(self.key(nid), lines, colour_of(node.op), self._facts(nid), False, head, frame)

    def arrows(self, nid: int, stands_for: Mapping[int, int]) -> list[Arrow]:
        """Return the arrows to a node from operators and inputs that are drawn."""
        hidden = {entry.node_id for entry, _ in self._parameters(nid)}
        entries = [entry for entry in self.index.nodes[nid].inputs if entry.node_id not in hidden]
        sources = [self.key(stands_for.get(entry.node_id, entry.node_id)) for entry in entries]
        return [Arrow(s, self.key(nid), self._size(entry)) for s, entry in zip(sources, entries, strict=True)]

    def run_lines(self, nids: Sequence[int], run: RepeatedRun) -> tuple[str, ...]:
        """Return how often a block occurs, what the names of its first and last copy begin with, and how its sizes
        grow."""
        names = [self.index.nodes[nid].source.name for nid in nids[run.start : run.end]]
        first, last = (common_start(copy).rstrip("_") for copy in (names[: run.length], names[-run.length :]))
        lines = [f"× {run.count}"]
        if first and last:
            lines.append(" … ".join(dict.fromkeys(shortened(name, _LONGEST) for name in (first, last))))
        if run.grows:
            copies = (nids[run.start + run.length - 1], nids[run.end - 1])
            lines.append(" … ".join(self._size(IndexedEntry(nid, 0, 0)) for nid in copies))
        return tuple(lines)

    def _facts(self, nid: int) -> str:
        """Return all facts about an operator: lines that are shown when a pointer rests on it."""
        node = self.index.nodes[nid]
        assert node.source.op is not None
        lines = [f"{node.source.op.name} {node.source.name}"]
        lines += [f"{key} = {value}" for key, value in sorted(node.source.attrs.dict.items())]
        for entry in node.inputs:
            lines.append(f"← {self.index.nodes[entry.node_id].source.name} {self._size(entry)}".rstrip())
        if self.shapes is not None:
            count = self.index.entry_rptr[nid + 1] - self.index.entry_rptr[nid]
            lines += [f"→ {size}" for i in range(count) if (size := self._size(IndexedEntry(nid, i, 0)))]
        return "\n".join(shortened(printable(line), _FACT) for line in lines)

    def _parameters(self, nid: int) -> list[tuple[IndexedEntry, str]]:
        """Return the inputs of a node that are not drawn, as text."""
        rows = []
        for entry in self.index.nodes[nid].inputs:
            source = self.index.nodes[entry.node_id].source
            if source.is_variable and source.name not in self.data:
                rows.append((entry, f"{source.name} {self._size(entry)}".rstrip()))
        return rows

    def _size(self, entry: IndexedEntry) -> str:
        shape = None if self.shapes is None else self.shapes[self.index.entry_id(entry)]
        return "" if shape is None else "×".join("?" if dim is None else str(dim) for dim in shape)


def _representatives(nids: Sequence[int], runs: Sequence[RepeatedRun]) -> dict[int, int]:
    """Map node of another copy of a block than the first → the node of the first that is drawn for it."""
    return {
        nids[place]: nids[run.start + (place - run.start) % run.length]
        for run in runs
        for place in range(run.start + run.length, run.end)
    }
