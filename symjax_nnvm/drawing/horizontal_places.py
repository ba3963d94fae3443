"""Horizontal positions of a grid's places: things side by side, lines straight, joints amid what they join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, inf

from symjax_nnvm.drawing.columns import Column, is_branch, make_columns
from symjax_nnvm.drawing.grid import Grid, Segment

_WORK = 600_000
"""Places that all sweeps together visit, about."""

_LINE = 1e-3
"""How much a line insists on its place beside a thing: it is the line that makes room."""

_ASIDE = 1e-3
"""How much what stands aside moves its readers."""

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Extent:
    """How far a place reaches to both sides of its middle, and the distance that others keep."""

    left: float
    right: float
    margin: float


LINE = Extent(0.0, 0.0, 5.0)


def horizontal(grid: Grid, extents: Sequence[Extent]) -> list[float]:
    """Return the middle of each place. extents: the extents of the things; places for lines follow them.

    Every row is put as near as its order and its distances allow to where its places' neighbours are, above, below, and
    then to where its places' columns are: the best positions of one row are a regression of ordered values, found in
    linear time. In the end every column that has room to is made straight.
    """
    rows = _rows(grid, extents)
    middles = [0.0] * len(grid.up)
    sweeps = max(1, min(4, _WORK // (1 + len(grid.up))))
    above, below = ([pulls(grid, place) for place in range(len(grid.up))] for pulls in (_above, _below))
    for _ in range(sweeps):
        for order, pulls in ((rows, above), (rows[::-1], below)):
            for row in order:
                _settle(row, [_wish(middles, pulls[place], middles[place]) for place in row.places], middles)
    columns = [(column, _of_column(column, above, below)) for column in make_columns(grid)]
    for _ in range(3 * sweeps):
        wishes = [0.0] * len(middles)
        for column, pulls in columns:
            wish = _wish_of_column(middles, column, pulls)
            for place, shift in column.members():
                wishes[place] = wish + shift
        for row in rows:
            _settle(row, [wishes[place] for place in row.places], middles)
    for _ in range(1 + sweeps // 2):
        _straighten(rows, columns, middles)
    return middles


@dataclass(frozen=True)
class _Row:
    """A row's places, from left to right. apart: least distances between the middles of neighbours. weights: how
    much each insists on its place."""

    places: Sequence[int]
    apart: Sequence[float]
    weights: Sequence[float]


def _rows(grid: Grid, extents: Sequence[Extent]) -> list[_Row]:
    every = [*extents, *[LINE] * (len(grid.up) - len(extents))]
    rows = []
    for places in grid.rows:
        apart = [every[a].right + every[a].margin + every[b].margin + every[b].left for a, b in pairwise(places)]
        rows.append(_Row(places, apart, [_LINE if grid.is_line(place) else 1.0 for place in places]))
    return rows


def _settle(row: _Row, wishes: Sequence[float], middles: list[float]) -> None:
    """Move the places of one row to the positions they are pulled to."""
    for place, middle in zip(row.places, _nearest(wishes, row.weights, row.apart), strict=True):
        middles[place] = middle


Pull = tuple[int, float, float]
"""Another place, how far right of it a place should be, and how much that counts. A thing is pulled by those at the far
ends of its lines, not by the lines: they go where there is room."""


def _above(grid: Grid, place: int) -> list[Pull]:
    pulls = []
    for s in grid.up[place]:
        weight = _ASIDE if s.link.aside else 1.0
        if grid.is_line(s.upper) and not grid.is_line(place):
            pulls.append((s.link.source, s.link.out - s.into, weight * (1.0 + is_branch(grid, s.link, s))))
        else:
            pulls.append((s.upper, s.out - s.into, weight * _weight(grid, s)))
    return pulls


def _below(grid: Grid, place: int) -> list[Pull]:
    pulls: list[Pull] = []
    for s in grid.down[place]:
        if grid.is_line(s.lower) and not grid.is_line(place):
            far = grid.far_ends(s)
            pulls += [(link.target, link.into - s.out, 1.0 + is_branch(grid, link, s)) for link in far]
        else:
            pulls.append((s.lower, s.into - s.out, _weight(grid, s)))
    return pulls


def _of_column(column: Column, above: Sequence[Sequence[Pull]], below: Sequence[Sequence[Pull]]) -> list[Pull]:
    """Return the pulls on a column: those on its places from places outside of it."""
    inside = set(column.places)
    return [
        (other, offset - shift, weight)
        for place, shift in column.members()
        for other, offset, weight in (*above[place], *below[place])
        if other not in inside
    ]


def _wish(middles: Sequence[float], pulls: Sequence[Pull], otherwise: float) -> float:
    """Return the weighted median of the positions that the pulls ask for; `otherwise` if there are none."""
    if len(pulls) == 1:
        return middles[pulls[0][0]] + pulls[0][1]
    return _median([(middles[other] + offset, weight) for other, offset, weight in pulls]) if pulls else otherwise


def _wish_of_column(middles: Sequence[float], column: Column, pulls: Sequence[Pull]) -> float:
    """Return half of the way from where a column begins to where it is pulled: else two that pull each other swap."""
    now = fsum(middles[place] - shift for place, shift in column.members()) / len(column.places)
    return (now + _wish(middles, pulls, now)) / 2


def _straighten(rows: Sequence[_Row], columns: Sequence[tuple[Column, list[Pull]]], middles: list[float]) -> None:
    """Make columns straight within the room that their places have between their neighbours; where there is none for
    all of a column, as much of it as can be."""
    beside = {place: (row, i) for row in rows for i, place in enumerate(row.places)}
    for column, pulls in columns:
        wish = _wish_of_column(middles, column, pulls)
        rooms = [_room(*beside[place], middles, -shift) for place, shift in column.members()]
        start = 0
        while start < len(rooms):
            (low, high), end = rooms[start], start + 1
            while end < len(rooms) and max(low, rooms[end][0]) <= min(high, rooms[end][1]) + _ROUNDING:
                low, high = max(low, rooms[end][0]), min(high, rooms[end][1])
                end += 1
            for place, shift in column.members()[start:end]:
                middles[place] = min(max(wish, low), high) + shift
            start = end


def _room(row: _Row, i: int, middles: Sequence[float], shift: float) -> tuple[float, float]:
    """Return the bounds of the middle of a row's place, shifted."""
    left = middles[row.places[i - 1]] + row.apart[i - 1] if i else -inf
    right = middles[row.places[i + 1]] - row.apart[i] if i + 1 < len(row.places) else inf
    return left + shift, right + shift


def _weight(grid: Grid, segment: Segment) -> float:
    """Return how straight a segment should be: a long line most of all, an arrow that goes past others the least."""
    return (2.0, 1.0, 8.0)[grid.is_line(segment.upper) + grid.is_line(segment.lower)]


def _median(weighted: list[tuple[float, float]]) -> float:
    """Return the value with half of the weight on either side; between two, their middle."""
    weighted.sort()
    half = fsum(weight for _, weight in weighted) / 2
    passed = 0.0
    for i, (value, weight) in enumerate(weighted):
        passed += weight
        if passed > half:
            return value
        if passed == half:
            return (value + weighted[i + 1][0]) / 2
    return weighted[-1][0]


def _nearest(wishes: Sequence[float], weights: Sequence[float], apart: Sequence[float]) -> Iterable[float]:
    """Return positions in order, element i + 1 at least apart[i] after element i, of the least weighted sum of squares
    from the wishes: neighbours that wish to be closer are pooled to one block that is where all its members wish it."""
    offset, offsets = 0.0, [0.0]
    for distance in apart:
        offset += distance
        offsets.append(offset)
    blocks: list[tuple[float, float, int]] = []  # sum of weighted wishes, sum of weights, members
    for wish, weight, shift in zip(wishes, weights, offsets, strict=False):
        total, heavy, members = (wish - shift) * weight, weight, 1
        while blocks and blocks[-1][0] * heavy > total * blocks[-1][1]:
            before = blocks.pop()
            total, heavy, members = total + before[0], heavy + before[1], members + before[2]
        blocks.append((total, heavy, members))
    placed = [total / heavy for total, heavy, members in blocks for _ in range(members)]
    return [value + shift for value, shift in zip(placed, offsets, strict=False)]
