"""A drawing in Graphviz's DOT language."""

from __future__ import annotations

from collections.abc import Iterable

from symjax_nnvm.drawing.description import Arrow, Box, Drawing

_PREAMBLE = """\
  node [shape=box, style="filled,rounded", penwidth=0.6, fontname="Helvetica", fontsize=11, margin="0.12,0.05"];
  edge [arrowhead=open, arrowsize=0.6, color="#555555", fontname="Helvetica", fontsize=9];
  graph [fontname="Helvetica", fontsize=12, style="rounded", color="#888888", ranksep=0.3];"""


def dot_text(drawing: Drawing) -> str:
    """Return the drawing as DOT: boxes frame by frame, then the arrows."""
    inside: list[list[str]] = [[] for _ in range(len(drawing.frames) + 1)]  # the last is outside of every frame
    for box in drawing.boxes:
        inside[-1 if box.frame is None else box.frame].append(_box(box))
    for number in reversed(range(len(drawing.frames))):  # a frame has a greater number than the one it is in
        frame = drawing.frames[number]
        label = f"  label={_quoted('   '.join(frame.lines))};"
        inside[-1 if frame.parent is None else frame.parent] += [
            *(f"  subgraph cluster_{number + 1} {{", label, *inside[number], "  }"),
        ]
    arrows = map(_arrow, drawing.arrows)
    return "\n".join([f"digraph {_quoted(drawing.title)} {{", _PREAMBLE, *inside[-1], *arrows, "}"]) + "\n"


def _box(box: Box) -> str:
    shape = ", shape=oval" if box.oval else ""
    border = ", peripheries=2" if box.head else ""
    return f'  {box.key} [label="{_lines(box.lines)}"{shape}, fillcolor={_quoted(box.colour)}{border}];'


def _arrow(arrow: Arrow) -> str:
    attributes = [f"label={_quoted(arrow.label)}"] * bool(arrow.label) + ["style=dashed"] * arrow.dashed
    suffix = f" [{', '.join(attributes)}]" if attributes else ""
    return f"  {arrow.source} -> {arrow.target}{suffix};"


def _lines(lines: Iterable[str]) -> str:
    return "\\n".join(map(_escaped, lines))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'
