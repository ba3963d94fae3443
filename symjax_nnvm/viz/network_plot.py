"""`plot_network`: draw a network, in SVG and in Graphviz's DOT language.

Named after MXNet's `mx.viz.plot_network`. Repeated blocks are drawn once with how often they occur
(`repeated_blocks.py`), so that a network of 150 layers fits on a page; parameters are hidden or small print; subgraphs
of control flow are frames.
Where arrows of many rows' length would run side by side, as in a gradient of many layers, each begins at a copy of its
source's name instead (`drawing/long_arrows.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from symjax_nnvm.drawing.description import Drawing
from symjax_nnvm.drawing.dot import dot_text
from symjax_nnvm.drawing.page import in_page, scrolling
from symjax_nnvm.drawing.svg import svg_text
from symjax_nnvm.errors import NNVMError, missing_extra
from symjax_nnvm.inspect.roles import data_inputs
from symjax_nnvm.io.files import write_file
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.symbol.call_arguments import expect_symbol, known_shapes
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.viz.plot_graph import draw_graph

_IN_A_CELL = 300
"""The largest number of operators of a drawing that a notebook shows by itself."""


class RenderingError(NNVMError):
    """Reports a drawing that cannot be rendered: Graphviz's program is missing, or refuses."""


@dataclass(frozen=True)
class NetworkPlot:
    """A drawing, which notebooks show. drawn: how many operators it has. folded: how many a drawn one stands for."""

    drawing: Drawing = field(repr=False)
    drawn: int
    folded: int

    @property
    def source(self) -> str:
        """Return the drawing as DOT text."""
        return dot_text(self.drawing)

    def svg(self) -> str:
        """Return SVG text, which needs nothing: the same on every machine."""
        return svg_text(self.drawing)

    def save(self, path: str | Path, *, graphviz: bool = False) -> Path:
        """Write `.svg`, or `.dot` (`.gv`) text, or render `.png`, `.pdf` by Graphviz; returns the path.

        graphviz: Graphviz makes the layout of `.svg`, too. Raises MissingExtraError, RenderingError, OSError.
        """
        path = Path(path)
        write_file(path, self.content(path, graphviz=graphviz))
        return path

    def content(self, path: Path, *, graphviz: bool = False) -> bytes:
        """Return the bytes of a file of this name. graphviz: as of `save`. Raises MissingExtraError, RenderingError."""
        suffix = path.suffix.lower().removeprefix(".")
        if suffix in ("dot", "gv"):
            return self.source.encode()
        if suffix == "svg" and not graphviz:
            return self.svg().encode()
        if suffix in ("svg", "png", "pdf"):
            return self.render(suffix)
        raise RenderingError(f"{path} names no format of a drawing: expected .dot, .gv, .svg, .png or .pdf.")

    def render(self, format: str) -> bytes:
        """Return the drawing as Graphviz makes it, in one of its formats. Raises MissingExtraError, RenderingError."""
        without = "SVG (.svg) and DOT (.dot) need nothing"
        try:
            import graphviz
        except ImportError:
            raise missing_extra(f"{format} needs the package graphviz; {without}", "plot") from None
        try:
            return graphviz.Source(self.source).pipe(format=format, quiet=True)
        except graphviz.ExecutableNotFound:
            raise RenderingError(
                f"{format} needs Graphviz's program `dot`, which is not installed: apt install graphviz, brew install "
                f"graphviz, or conda install graphviz. {without}."
            ) from None
        except graphviz.CalledProcessError as error:
            raise RenderingError(f"Graphviz refused the drawing: {error}.") from None

    def __repr__(self) -> str:
        return f"<NetworkPlot: {self.drawn} operators drawn, {self.folded} folded into them>"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the forms that notebooks show: HTML; the others are for tools that make other documents of them."""
        svg = self.svg()
        html = f'<div style="overflow-x:auto">{in_page(svg)}</div>'
        return {"text/html": html, "image/svg+xml": svg, "text/plain": repr(self)}

    def above(self, table: str) -> str:
        """Return HTML of the drawing with a table folded under it; only the table if a drawing would be too large
        for a notebook's cell."""
        if not 0 < self.drawn <= _IN_A_CELL:
            return table
        heading = f"{self.drawn + self.folded:,} operators as a table"
        return f"{scrolling(in_page(self.svg()))}<details><summary>{heading}</summary>{table}</details>"


def plot_network(
    symbol: Symbol,
    shape: Mapping[str, Sequence[int]] | None = None,
    *,
    title: str = "plot",
    hide_weights: bool = True,
    fold: bool = True,
    params: Iterable[str] | None = None,
) -> NetworkPlot:
    """Draw a network from its inputs down to its heads, which have a double border.

    Args:
        symbol: the network.
        shape: shapes of inputs by name; with them the edges show shapes.
        title: the name of the drawing.
        hide_weights: leave out parameters; False names them, with shapes, below their operator.
        fold: draw a repeated block once, with the number of its repetitions.
        params: names of the parameters; None for all arguments that do not look like data.

    Raises:
        InferenceError: shapes contradict the graph.
    """
    expect_symbol(symbol, "plot_network")
    graph = Graph(symbol.outputs)
    shapes = None
    if shape:
        graph = infer_shape(graph, shapes=known_shapes(shape))
        shapes = graph.attrs["shape"]
    data = data_inputs(symbol, shape or {}, params)
    drawn = draw_graph(title, graph.indexed_graph(), shapes, data, hide_weights=hide_weights, fold=fold)
    return NetworkPlot(drawn.drawing, drawn.drawn, drawn.folded)


@register_pass("PlotNetwork", provides=("plot",))
def _plot_pass(graph: Graph) -> Graph:
    """Return `plot_network` of a graph, by which a symbol shows itself."""
    return graph.derive((), {"plot": plot_network(Symbol(graph.outputs))})
