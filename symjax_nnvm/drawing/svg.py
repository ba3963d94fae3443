"""A drawing as SVG: readable on white and on black, safe to put into a page, with a node's facts under the pointer."""

from __future__ import annotations

from html import escape

from symjax_nnvm.drawing.description import Box, Drawing
from symjax_nnvm.drawing.frame_layout import LINE, RING, SMALL, TEXT, FrameLayout, Rectangle, lay_out
from symjax_nnvm.drawing.rows import RowPiece
from symjax_nnvm.drawing.text_width import FAMILY

_LINES = "#777"
"""A grey as far from white as from black: a drawing may be put on either."""

_DASHED = ' stroke-dasharray="4 3"'


def svg_text(drawing: Drawing) -> str:
    """Return the drawing as an SVG document without a head, which HTML takes too. Raises GraphError for cycles."""
    layout = lay_out(drawing)
    width, height = _n(layout.width), _n(layout.height)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="{FAMILY}" font-size="{_n(SMALL)}">',
        f"<title>{escape(drawing.title)}</title>",
        *_frames(drawing, layout),
        f'<g fill="none" stroke="{_LINES}" stroke-width="1">',
        *(f'<path d="{_path(pieces)}"{_DASHED * dashed}/>' for dashed, pieces in layout.lines),
        "</g>",
        f'<path fill="{_LINES}" d="{"".join(_tip(x, y) for x, y in dict.fromkeys(layout.tips))}"/>',
        f'<g fill="{_LINES}">',
        *(f'<text x="{_n(x)}" y="{_n(y)}">{escape(label)}</text>' for x, y, label in layout.labels),
        "</g>",
        '<g text-anchor="middle" stroke-width="0.7">',
        *(_box(box, layout.boxes[box.key]) for box in drawing.boxes),
        "</g></svg>",
    ]
    return "\n".join(parts) + "\n"


def _frames(drawing: Drawing, layout: FrameLayout) -> list[str]:
    """Return frames, the outer ones first."""
    parts = []
    for number, r in layout.frames.items():
        parts.append(f'<rect {_rectangle(r)} rx="6" fill="#888" fill-opacity="0.09" stroke="#999"/>')
        for i, line in enumerate(drawing.frames[number].lines):
            weight = ' font-weight="bold"' if i == 0 else ""
            x, y = _n(layout.frame_texts[number]), _n(r.top + LINE * (i + 1))
            parts.append(f'<text x="{x}" y="{y}" fill="{_LINES}"{weight}>{escape(line)}</text>')
    return parts


def _box(box: Box, r: Rectangle) -> str:
    round = r.height / 2 if box.oval else 5.0
    parts = [f"<g><title>{escape(box.facts or ' '.join(box.lines))}</title>"]
    if box.head:
        ring = Rectangle(r.left - RING, r.top - RING, r.width + 2 * RING, r.height + 2 * RING)
        parts.append(f'<rect {_rectangle(ring)} rx="{_n(round + RING)}" fill="none" stroke="{_LINES}"/>')
    parts.append(f'<rect {_rectangle(r)} rx="{_n(round)}" fill="{box.colour}" stroke="{_LINES}"/>')
    middle, first = _n(r.left + r.width / 2), r.top + r.height / 2 - LINE * (len(box.lines) - 1) / 2 + TEXT * 0.35
    for i, line in enumerate(box.lines):
        look = f'fill="#444" y="{_n(first + LINE * i)}"' if i else f'fill="#111" font-size="{_n(TEXT)}" y="{_n(first)}"'
        parts.append(f'<text x="{middle}" {look}>{escape(line)}</text>')
    return "".join(parts) + "</g>"


def _path(pieces: list[RowPiece]) -> str:
    """Return a trunk and its branches; a piece that continues at the end of the last one needs no new start."""
    steps: list[tuple[str, str]] = []

    def down(y: float) -> None:
        if steps[-1][0] == "V":
            steps.pop()
        steps.append(("V", _n(y)))

    at = None
    for p in pieces:
        if at != (p.x1, p.y1):
            steps.append(("M", f"{_n(p.x1)} {_n(p.y1)}"))
        if abs(p.x1 - p.x2) < 0.1:
            down(p.y4)
        else:
            middle = _n((p.y2 + p.y3) / 2)
            if p.y2 > p.y1:
                down(p.y2)
            steps.append(("C", f"{_n(p.x1)} {middle} {_n(p.x2)} {middle} {_n(p.x2)} {_n(p.y3)}"))
            if p.y4 > p.y3:
                down(p.y4)
        at = (p.x2, p.y4)
    return "".join(letter + numbers for letter, numbers in steps)


def _tip(x: float, y: float) -> str:
    return f"M{_n(x)} {_n(y)}l-3 -6h6z"


def _rectangle(r: Rectangle) -> str:
    return f'x="{_n(r.left)}" y="{_n(r.top)}" width="{_n(r.width)}" height="{_n(r.height)}"'


def _n(number: float) -> str:
    """Return a number with at most one digit after the point, and no `-0`. Halves go up, however a sum was rounded."""
    return f"{round(number + 1e-6, 1) + 0:.6g}"
