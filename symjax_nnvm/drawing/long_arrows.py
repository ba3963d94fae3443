"""Long arrows of a crowded drawing: a value that is read far below is named again where it is read.

Every value that a gradient keeps is a line past all nodes between. A hundred such lines side by side cannot be followed
by eye, and laying them out takes time and width by the square of the drawing's length.
"""

from __future__ import annotations

from dataclasses import replace

from symjax_nnvm.drawing.description import Arrow, Box, Drawing
from symjax_nnvm.drawing.ranks import ranks
from symjax_nnvm.drawing.text_width import shortened

_CROWDED = 8
"""Lines that a row of a readable drawing lets through, on average."""

_FAR = 16
"""Rows that an arrow of a crowded drawing may lead down, and within which one name serves several readers."""

_LONGEST = 24  # characters of a name that stands again


def uncrowded(drawing: Drawing) -> Drawing:
    """Return the drawing, or, where it is crowded, one whose long arrows come from boxes of their own, named as their
    source is, near to what they lead to. Raises GraphError for arrows in a circle."""
    number = {box.key: i for i, box in enumerate(drawing.boxes)}
    rows = ranks(len(number), [(number[arrow.source], number[arrow.target]) for arrow in drawing.arrows])
    row = {key: rows[i] for key, i in number.items()}
    lowest: dict[str, int] = {}
    for arrow in drawing.arrows:
        lowest[arrow.source] = max(lowest.get(arrow.source, 0), row[arrow.target])
    if sum(low - row[source] - 1 for source, low in lowest.items()) <= _CROWDED * max(rows, default=0):
        return drawing
    boxes = {box.key: box for box in drawing.boxes}
    nearest: dict[tuple[str, int | None], tuple[int, Box]] = {}  # by source and frame: the last that stands for it
    again: list[Box] = []
    arrows: dict[Arrow, int] = {}
    for arrow in sorted(drawing.arrows, key=lambda arrow: row[arrow.target]):
        source, target = boxes[arrow.source], boxes[arrow.target]
        if row[target.key] - row[source.key] > _FAR:
            top, box = nearest.get((source.key, target.frame), (-_FAR - 1, source))
            if row[target.key] - top > _FAR:
                box = _again(source, target)
                again.append(box)
                nearest[source.key, target.frame] = row[target.key], box
            source = box
        arrows[replace(arrow, source=source.key)] = number[target.key]
    return replace(drawing, boxes=(*drawing.boxes, *again), arrows=tuple(sorted(arrows, key=arrows.__getitem__)))


def _again(source: Box, target: Box) -> Box:
    """Return the box that stands for another one beside its reader, far below."""
    name = source.lines[:2][-1]  # an operator's, or an input's only line
    text = (f"↑ {shortened(name, _LONGEST)}",)
    note = f"drawn above: {source.facts}"
    return Box(f"{target.key}_{source.key}", text, source.colour, note, frame=target.frame, aside=True)
