"""The rows of a drawing, with a place in every row that a line crosses, ordered so that few lines cross another."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import fsum

_WORK = 400_000
"""Places that all sweeps together visit, about: a drawing of many long lines has fewer sweeps."""


@dataclass(frozen=True)
class Link:
    """A line from thing `source` to thing `target`, by number; out, into: how far beside their middles it begins and
    ends. trunk: lines of one source and trunk run together as far as they can. aside: it straightens nothing."""

    source: int
    target: int
    trunk: Hashable
    out: float = 0.0
    into: float = 0.0
    aside: bool = False


@dataclass(frozen=True)
class Segment:
    """A line's part from a place to one of the next row."""

    upper: int
    lower: int
    out: float
    into: float
    link: Link


@dataclass
class Grid:
    """The rows of a drawing. rows: places, from left to right. Places below `things` are things; the others let a
    line through. row_of: each place's row. up, down: each place's segments. trunks: links by source and trunk."""

    things: int
    rows: list[list[int]]
    row_of: list[int]
    up: list[list[Segment]] = field(default_factory=list)
    down: list[list[Segment]] = field(default_factory=list)
    trunks: dict[tuple[int, Hashable], list[Link]] = field(default_factory=dict)

    def is_line(self, place: int) -> bool:
        """Return whether a place only lets a line through."""
        return place >= self.things

    def far_ends(self, segment: Segment) -> list[Link]:
        """Return the links that end in a segment from a thing into a line, or from a line to a thing."""
        if not self.is_line(segment.lower):
            return [segment.link]
        links = self.trunks[segment.link.source, segment.link.trunk]
        return [link for link in links if self.row_of[link.target] > self.row_of[segment.lower]]


def make_grid(rows_of: Sequence[int], links: Sequence[Link]) -> Grid:
    """Return the grid of things whose rows are known, its rows in order."""
    row_of = list(rows_of)
    grid = Grid(len(rows_of), [[] for _ in range(max(rows_of, default=-1) + 1)], row_of)
    grid.up, grid.down = [[] for _ in rows_of], [[] for _ in rows_of]
    through: dict[tuple[int, Hashable], list[int]] = {}
    for link in links:
        grid.trunks.setdefault((link.source, link.trunk), []).append(link)
        trunk = through.setdefault((link.source, link.trunk), [link.source])
        begin, end = rows_of[link.source], rows_of[link.target]
        while begin + len(trunk) < end:  # one more place of the trunk
            place = len(row_of)
            row_of.append(begin + len(trunk))
            grid.up.append([])
            grid.down.append([])
            _join(grid, trunk[-1], place, link.out if len(trunk) == 1 else 0.0, 0.0, link)
            trunk.append(place)
        _join(grid, trunk[end - begin - 1], link.target, link.out if end - begin == 1 else 0.0, link.into, link)
    for place in _from_the_top(grid):
        grid.rows[row_of[place]].append(place)
    _order(grid)
    return grid


def _join(grid: Grid, upper: int, lower: int, out: float, into: float, link: Link) -> None:
    segment = Segment(upper, lower, out, into, link)
    grid.down[upper].append(segment)
    grid.up[lower].append(segment)


def _from_the_top(grid: Grid) -> list[int]:
    """Return places as a walk meets them that goes down as far as it can, through things before through lines."""
    order: dict[int, None] = {}
    for start in sorted(range(len(grid.row_of)), key=grid.row_of.__getitem__):
        stack = [start] if not grid.up[start] else []
        while stack:
            place = stack.pop()
            if place in order:
                continue
            order[place] = None
            following = [segment.lower for segment in grid.down[place]]
            stack += sorted(following, key=grid.is_line, reverse=True)  # the last is next
    return list(order)


def _order(grid: Grid) -> None:
    """Order each row by where its neighbours are, down and up in turn, and keep the best found."""
    best, fewest = [list(row) for row in grid.rows], crossings(grid)
    sweeps = max(2, min(16, _WORK // (1 + len(grid.up))))
    for sweep in range(sweeps):
        if not fewest:
            break
        upwards = sweep % 2 == 1
        position = _positions(grid)
        for row in reversed(grid.rows[:-1]) if upwards else grid.rows[1:]:
            _by_neighbours(grid, row, position, upwards)
        crossed = crossings(grid)
        if crossed < fewest:
            best, fewest = [list(row) for row in grid.rows], crossed
    grid.rows = best


def _positions(grid: Grid) -> list[int]:
    position = [0] * len(grid.up)
    for row in grid.rows:
        for i, place in enumerate(row):
            position[place] = i
    return position


def _by_neighbours(grid: Grid, row: list[int], position: list[int], upwards: bool) -> None:
    """Sort a row by the mean position of each place's neighbours; what has none stays where it is."""
    wishes: dict[int, tuple[float, float]] = {}
    for place in row:
        if upwards:
            near = [position[s.lower] + s.into * 1e-4 for s in grid.down[place]]
        else:
            near = [position[s.upper] + s.out * 1e-4 for s in grid.up[place]]
        wishes[place] = (round(fsum(near) / len(near), 6) if near else position[place], position[place])
    row.sort(key=wishes.__getitem__)
    for i, place in enumerate(row):
        position[place] = i


def crossings(grid: Grid) -> int:
    """Return the number of pairs of segments that cross."""
    position = _positions(grid)
    total = 0
    for row in grid.rows:
        ends_before: list[int] = []
        for place in row:
            ends = sorted(position[segment.lower] for segment in grid.down[place])
            for end in ends:
                total += len(ends_before) - bisect_right(ends_before, end)
            for end in ends:
                insort(ends_before, end)
    return total
