"""Things and the lines between them, in rows from above: where each thing is, and how each line goes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from symjax_nnvm.drawing.grid import Grid, Link, make_grid
from symjax_nnvm.drawing.horizontal_places import Extent, horizontal
from symjax_nnvm.drawing.ranks import ranks

_GAP, _STEEPEST, _WIDEST = 18.0, 0.12, 70.0
"""Between two rows: at least, for each point that a line goes sideways, and at most."""


@dataclass(frozen=True)
class Thing:
    """A box or a frame of a size. left, right: how far it reaches to both sides of its middle. height: of it
    alone; under: of what is written below it, past which its lines go straight."""

    left: float
    right: float
    height: float
    under: float = 0.0
    margin: float = 9.0


@dataclass(frozen=True)
class RowPiece:
    """A part of a line: straight down to where it bends, bent down to `y3`, and straight on.

    (x1, y1) to (x1, y2), bent to (x2, y3), to (x2, y4)."""

    x1: float
    y1: float
    y2: float
    x2: float
    y3: float
    y4: float


@dataclass
class Rows:
    """The places of things and lines. middles, tops: of each thing. lines: the pieces by the link's source and
    trunk. left, right, height: of all."""

    middles: list[float]
    tops: list[float]
    lines: dict[tuple[int, Any], list[RowPiece]]
    left: float
    right: float
    height: float


def in_rows(
    things: Sequence[Thing], links: Sequence[Link], first: Collection[int] = (), last: Collection[int] = ()
) -> Rows:
    """Lay things out, such that links go down. first, last: things at the upper and the lower edge, alone there.

    Raises GraphError for links in a circle."""
    rows_of = ranks(len(things), [(link.source, link.target) for link in links], first, last)
    grid = make_grid(rows_of, links)
    middles = horizontal(grid, [Extent(thing.left, thing.right, thing.margin) for thing in things])
    begins, ends = _bands(grid, things, middles)
    tops = []
    for place, (row, thing) in enumerate(zip(rows_of, things, strict=True)):
        room = ends[row] - begins[row] - thing.height - thing.under
        tops.append(begins[row] + (room / 2 if grid.up[place] else room))  # what reads nothing is near to its reader
    sides = list(zip(middles, [*things, *[Thing(0, 0, 0)] * (len(middles) - len(things))], strict=True))
    left = min((middle - thing.left for middle, thing in sides), default=0.0)
    right = max((middle + thing.right for middle, thing in sides), default=0.0)
    lines = _lines(grid, things, middles, tops, begins, ends)
    return Rows(middles[: len(things)], tops, lines, left, right, max(ends, default=0.0))


def _lines(
    grid: Grid,
    things: Sequence[Thing],
    middles: Sequence[float],
    tops: Sequence[float],
    begins: Sequence[float],
    ends: Sequence[float],
) -> dict[tuple[int, Any], list[RowPiece]]:
    """Return the pieces of every trunk; where it branches, what the branches have in common is drawn once."""
    lines: dict[tuple[int, Any], list[RowPiece]] = {}
    for place, segments in enumerate(grid.down):
        common: set[float] = set()
        for s in segments:
            above, below = grid.row_of[place], grid.row_of[s.lower]
            x = middles[place] + s.out
            start = begins[above] if grid.is_line(place) else tops[place] + things[place].height
            end = begins[below] if grid.is_line(s.lower) else tops[s.lower]
            piece = RowPiece(
                x, ends[above] if x in common else start, ends[above], middles[s.lower] + s.into, begins[below], end
            )
            common.add(x)
            lines.setdefault((s.link.source, s.link.trunk), []).append(piece)
    return lines


def _bands(grid: Grid, things: Sequence[Thing], middles: Sequence[float]) -> tuple[list[float], list[float]]:
    """The upper and lower ends of each row: between two rows there is more room where lines go far sideways."""
    begins, ends = [], []
    y = 0.0
    for number, row in enumerate(grid.rows):
        if number:
            sideways = (
                abs(middles[s.upper] + s.out - middles[s.lower] - s.into) for place in row for s in grid.up[place]
            )
            y += min(_GAP + _STEEPEST * max(sideways, default=0.0), _WIDEST)
        begins.append(y)
        y += max((things[p].height + things[p].under for p in row if not grid.is_line(p)), default=0.0)
        ends.append(y)
    return begins, ends
