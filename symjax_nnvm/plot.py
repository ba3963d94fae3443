"""`plot_network`: a network as a drawing, in Graphviz's DOT language.

Named after MXNet's `mx.viz.plot_network`. Repeated blocks are drawn once with how often they occur (`blocks.py`), so
that a network of 150 layers fits on a page; parameters are hidden or small print; subgraphs of control flow are boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from symjax_nnvm.blocks import Run, common_start, repeated_blocks
from symjax_nnvm.errors import MissingExtraError, NNVMError, missing_extra, printable
from symjax_nnvm.files import write_file
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedEntry, IndexedGraph
from symjax_nnvm.ir.node import Node, Subgraph
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.plot_style import colour_of, facts
from symjax_nnvm.roles import data_inputs
from symjax_nnvm.symbol.given import expect_symbol, known_shapes
from symjax_nnvm.symbol.symbol import Symbol

_PREAMBLE = """\
  node [shape=box, style="filled,rounded", penwidth=0.6, fontname="Helvetica", fontsize=11, margin="0.12,0.05"];
  edge [arrowhead=open, arrowsize=0.6, color="#555555", fontname="Helvetica", fontsize=9];
  graph [fontname="Helvetica", fontsize=12, style="rounded", color="#888888", ranksep=0.3];"""


class RenderingError(NNVMError):
    """A drawing that cannot be rendered: Graphviz's program is missing, or refuses."""


@dataclass(frozen=True)
class NetworkPlot:
    """A drawing. source: DOT text. drawn, folded: operators that are drawn, and that stand behind a drawn one."""

    source: str
    drawn: int
    folded: int

    def save(self, path: str | Path) -> Path:
        """Write `.dot` (or `.gv`) text, or render `.svg`, `.png`, `.pdf` by Graphviz; returns the path.

        Raises MissingExtraError, RenderingError, OSError.
        """
        path = Path(path)
        write_file(path, self.content(path))
        return path

    def content(self, path: Path) -> bytes:
        """What a file of this name holds. Raises MissingExtraError, RenderingError."""
        suffix = path.suffix.lower().removeprefix(".")
        if suffix in ("dot", "gv"):
            return self.source.encode()
        if suffix in ("svg", "png", "pdf"):
            return self.render(suffix)
        raise RenderingError(f"{path} names no format of a drawing: expected .dot, .gv, .svg, .png or .pdf.")

    def render(self, format: str) -> bytes:
        """The drawing in a format of Graphviz's. Raises MissingExtraError, RenderingError."""
        try:
            import graphviz
        except ImportError:
            raise missing_extra(f"{format} needs the package graphviz; DOT (.dot) needs nothing", "plot") from None
        try:
            return graphviz.Source(self.source).pipe(format=format, quiet=True)
        except graphviz.ExecutableNotFound:
            raise RenderingError(
                f"{format} needs Graphviz's program `dot`, which is not installed: apt install graphviz, brew install "
                "graphviz, or conda install graphviz. DOT (.dot) needs nothing."
            ) from None
        except graphviz.CalledProcessError as error:
            raise RenderingError(f"Graphviz refused the drawing: {error}.") from None

    def __repr__(self) -> str:
        return f"<NetworkPlot: {self.drawn} operators drawn, {self.folded} folded into them>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """What notebooks show: the drawing, or a line that says what to install for it."""
        try:
            return {"image/svg+xml": self.render("svg").decode(), "text/plain": repr(self)}
        except (MissingExtraError, RenderingError) as error:
            return {"text/plain": f"{self!r}\n{error}"}


def plot_network(
    symbol: Symbol,
    shape: Mapping[str, Sequence[int]] | None = None,
    *,
    title: str = "plot",
    hide_weights: bool = True,
    fold: bool = True,
    params: Iterable[str] | None = None,
) -> NetworkPlot:
    """A drawing of a network, from its inputs down to its heads, which have a double border.

    shape: shapes of inputs by name; with them, edges carry shapes. hide_weights: leave parameters out, else name them
    (with shapes) under their operator. fold: draw a block that follows itself once, with how often. params: names of
    the parameters; left out, all arguments but those that look like data. Raises InferenceError.
    """
    expect_symbol(symbol, "plot_network")
    graph = Graph(symbol.outputs)
    shapes = None
    if shape:
        graph = infer_shape(graph, shapes=known_shapes(shape))
        shapes = graph.attrs["shape"]
    data = data_inputs(symbol, shape or {}, params)
    drawing = _Drawing(hide_weights, fold)
    drawing.add(graph.indexed_graph(), shapes, data)
    lines = [f"digraph {_quoted(printable(title))} {{", _PREAMBLE, *drawing.lines, "}"]
    return NetworkPlot("\n".join(lines) + "\n", drawing.drawn, drawing.folded)


class _Drawing:
    """The lines of a drawing, and how many operators are in it."""

    def __init__(self, hide_weights: bool, fold: bool):
        self.lines: list[str] = []
        self.drawn = self.folded = 0
        self._hide_weights, self._fold = hide_weights, fold
        self._graphs = 0
        self._boxes = 0
        self._seen: set[int] = set()

    def add(self, index: IndexedGraph, shapes: Sequence[Shape | None] | None, data: set[str]) -> None:
        """Draw a graph, and what its nodes run, without recursion: boxes that are not drawn yet wait on a stack."""
        pending: list[str | tuple[Node, str, Subgraph]] = self._graph(index, shapes, data)[::-1]
        while pending:
            item = pending.pop()
            if isinstance(item, str):
                self.lines.append(item)
                continue
            node, ident, subgraph = item
            inner = IndexedGraph(subgraph.outputs)
            names = {inner.nodes[nid].source.name for nid in inner.input_nodes}
            drawn = self._graph(inner, None, names)
            heads = [f"  {self._ident(head.node_id)} -> {ident} [style=dashed];" for head in inner.outputs]
            pending += [*self._box(f"run by {node.name}", drawn), *dict.fromkeys(heads)][::-1]

    def _graph(
        self, index: IndexedGraph, shapes: Sequence[Shape | None] | None, data: set[str]
    ) -> list[str | tuple[Node, str, Subgraph]]:
        """Lines of one graph; in place of a subgraph stand the node that runs it, its identifier, and the subgraph."""
        self._graphs += 1
        nids = [nid for nid, node in enumerate(index.nodes) if not node.source.is_variable]
        runs = repeated_blocks(index, shapes) if self._fold else []
        stands_for = _representatives(nids, runs)
        heads = {stands_for.get(head.node_id, head.node_id) for head in index.outputs}
        lines: list[str | tuple[Node, str, Subgraph]] = []
        for nid in index.input_nodes:
            name = index.nodes[nid].source.name
            if name in data:
                style = f"shape=oval, fillcolor={_quoted(colour_of(None))}{_border(nid in heads)}"
                lines.append(f"  {self._ident(nid)} [label={_quoted(printable(name))}, {style}];")
        edges: list[str] = []
        starts = {run.start: run for run in runs}
        place = 0
        while place < len(nids):
            run = starts.get(place)
            inside: list[str | tuple[Node, str, Subgraph]] = []
            for nid in nids[place : place + (run.length if run else 1)]:
                node = index.nodes[nid].source
                inside += [
                    self._node(index, nid, shapes, data, nid in heads),
                    *((node, self._ident(nid), s) for s in node.attrs.subgraphs if self._first_time(s)),
                ]
                edges += self._edges(index, nid, shapes, data, stands_for)
                self.drawn += 1
            if run:
                self.folded += (run.count - 1) * run.length
                label = _run_label([index.nodes[nid].source.name for nid in nids], run)
                if run.grows:
                    copies = (nids[run.start + run.length - 1], nids[run.end - 1])
                    label += f"   {' … '.join(_size(index, IndexedEntry(nid, 0, 0), shapes) for nid in copies)}"
                lines += self._box(label, inside)
            else:
                lines += inside
            place = run.end if run else place + 1
        return lines + edges

    def _node(
        self, index: IndexedGraph, nid: int, shapes: Sequence[Shape | None] | None, data: set[str], head: bool
    ) -> str:
        node = index.nodes[nid].source
        assert node.op is not None
        text = [" ".join(filter(None, (node.op.name, facts(node)))), node.name]
        if not self._hide_weights:
            for entry in index.nodes[nid].inputs:
                source = index.nodes[entry.node_id].source
                if source.is_variable and source.name not in data:
                    text.append(f"{source.name} {_size(index, entry, shapes)}".rstrip())
        label = "\\n".join(_escaped(printable(line)) for line in text if line)
        return f'  {self._ident(nid)} [label="{label}", fillcolor={_quoted(colour_of(node.op))}{_border(head)}];'

    def _edges(
        self,
        index: IndexedGraph,
        nid: int,
        shapes: Sequence[Shape | None] | None,
        data: set[str],
        stands_for: Mapping[int, int],
    ) -> list[str]:
        lines = []
        for entry in index.nodes[nid].inputs:
            source = index.nodes[entry.node_id].source
            if source.is_variable and source.name not in data:
                continue
            size = _size(index, entry, shapes)
            label = f" [label={_quoted(size)}]" if size else ""
            lines.append(f"  {self._ident(stands_for.get(entry.node_id, entry.node_id))} -> {self._ident(nid)}{label};")
        return lines

    def _box(self, label: str, lines: Iterable[str | tuple[Node, str, Subgraph]]) -> list:
        self._boxes += 1
        return [f"  subgraph cluster_{self._boxes} {{", f"  label={_quoted(printable(label))};", *lines, "  }"]

    def _first_time(self, subgraph: Subgraph) -> bool:
        """Whether a subgraph has not been drawn: several nodes may run one."""
        fresh = id(subgraph) not in self._seen
        self._seen.add(id(subgraph))
        return fresh

    def _ident(self, nid: int) -> str:
        return f"g{self._graphs}n{nid}"


def _representatives(nids: Sequence[int], runs: Sequence[Run]) -> dict[int, int]:
    """Node of another copy of a block than the first → the node of the first that is drawn for it."""
    return {
        nids[place]: nids[run.start + (place - run.start) % run.length]
        for run in runs
        for place in range(run.start + run.length, run.end)
    }


def _run_label(names: Sequence[str], run: Run) -> str:
    """How often a block occurs, and what the names of its first and last copy begin with."""
    copies = (names[run.start : run.start + run.length], names[run.end - run.length : run.end])
    first, last = (common_start(copy).rstrip("_") for copy in copies)
    return f"× {run.count}   {first} … {last}" if first and last else f"× {run.count}"


def _size(index: IndexedGraph, entry: IndexedEntry, shapes: Sequence[Shape | None] | None) -> str:
    shape = None if shapes is None else shapes[index.entry_id(entry)]
    return "" if shape is None else "×".join("?" if dim is None else str(dim) for dim in shape)


def _border(head: bool) -> str:
    return ", peripheries=2" if head else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'
