"""Places that should stand above each other: the parts of a long line, and things that follow each other alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from symjax_nnvm.drawing.grid import Grid, Link, Segment

_NEAR = 8
"""Rows within which a branch beside others should be balanced with them."""


@dataclass(frozen=True)
class Column:
    """Holds places above each other. places: from above. shifts: how far right of the column each is, 0 the first."""

    places: list[int]
    shifts: list[float]

    def members(self) -> list[tuple[int, float]]:
        """Return each place with its shift."""
        return list(zip(self.places, self.shifts, strict=True))


def make_columns(grid: Grid) -> list[Column]:
    """Put every place in one column, the longest first. What a thing has beside a line past others is its column's; of
    two things below it neither is."""
    below = {
        s.upper: s for segments in grid.down if (s := _alone(grid, segments)) and _alone(grid, grid.up[s.lower]) is s
    }
    begins = set(range(len(grid.up))) - {segment.lower for segment in below.values()}
    columns = []
    for place in sorted(begins):
        column = Column([place], [0.0])
        while (segment := below.get(column.places[-1])) is not None:
            column.shifts.append(column.shifts[-1] + segment.out - segment.into)
            column.places.append(segment.lower)
        columns.append(column)
    return sorted(columns, key=lambda column: -len(column.places))


def _alone(grid: Grid, segments: Sequence[Segment]) -> Segment | None:
    """Return the one segment that is straighter than the others on its side of a place; none where two are alike."""
    if not segments:
        return None
    kinds = [_kind(grid, segment) for segment in segments]
    best = max(kinds)
    return segments[kinds.index(best)] if kinds.count(best) == 1 else None


def _kind(grid: Grid, segment: Segment) -> int:
    """Return 2 within a line; 1 between things and where a line leads to a near branch; 0 where one goes past others;
    less for what stands aside."""
    if segment.link.aside:
        return -1
    lines = grid.is_line(segment.upper) + grid.is_line(segment.lower)
    return (1, 0, 2)[lines] or any(is_branch(grid, link, segment) for link in grid.far_ends(segment))


def is_branch(grid: Grid, link: Link, segment: Segment) -> bool:
    """Return whether a link, of which a segment is an end, is the only one of the thing at its other end, not long."""
    ways = grid.up[link.target] if grid.is_line(segment.lower) else grid.down[link.source]
    return len(ways) == 1 and grid.row_of[link.target] - grid.row_of[link.source] <= _NEAR
