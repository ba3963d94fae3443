"""`choose`: which algorithm computes a convolution fastest, by a table of measurements of the platform.

A convolution's geometry is looked up among those measured in the same direction. What was fastest for the nearest of
them, of what can compute this one, is taken: nearest in the sum of |log₂| of the ratios of batch, places of the output,
channels, filters, groups and elements of the window, among those that are as dense, as pointwise and as strided.
A platform without a table was not measured: everything is left to XLA there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from math import prod

from lowering.convolutions.applicable import LIBRARY, applies, winograd_tile
from lowering.convolutions.geometry import Direction, Geometry
from lowering.convolutions.timings_table import Measured, rows_of

__all__ = ["SMALL", "choose", "forget"]

MARGIN = 0.95
"""What is to replace XLA's convolution takes at most this part of its time: less is within the noise."""

WEIGHT_MARGIN = 1.3
"""The same for the gradient of a weight, for which XLA lays data and head gradient anew: in a training step it computes
what they are made of again on the way, of which its time alone says nothing. ResNet-18's step of 16 samples takes 0.94
of the time without."""

NARROW = 32
NARROW_MARGIN = 1.3
"""The same for the gradient of data of so few channels by a window of one element, XLA's convolution of which is a
product of Eigen's: in a step of MobileNet, on one core, that of (8, 112, 112, 64) to 32 channels takes 12 ms, by itself
5.9; "product" 6.2 and 4.5."""

IMAGE_CHANNELS = 4
"""Channels of images, which are data that nothing is computed for."""

LIBRARY_MARGIN = 0.85
"""Winograd's algorithm takes at most this part of the library's time, or the library is taken: bias, sum and activation
are passes of their own after Winograd's."""

WINOGRAD_CHANNELS = 16
"""Fewer channels or filters than were measured."""

SMALL = 1_000_000
"""Multiplications of a dense convolution up to which XLA's takes no time that matters, and compiles fastest."""


@lru_cache(maxsize=4096)
def choose(
    direction: Direction,
    geometry: Geometry,
    platform: str,
    *,
    precise: bool = False,
    constant: bool = False,
    library: bool = False,
) -> str:
    """Return the name of an algorithm that can compute a direction of a geometry, the fastest as far as was measured.

    platform: "cpu", …; on one without a table, "xla". precise: none whose float32 errors exceed 1e-6 of scale, which
    F(4×4)'s do; nor ever in float64. constant: what is made of the weight alone is made once, before. library: a
    library of the platform may be called; where the weight is constant, and it does what follows in the same pass, it
    is taken unless Winograd's algorithm saves much more. Raises FileError for a malformed table of the user's.
    """
    if not isinstance(geometry.macs, int):  # a size that an exported program leaves open
        return "xla"
    rows = rows_of(platform)
    fused = library and constant
    if rows and not fused and applies("whole", direction, geometry):
        return "whole"
    if not rows or (geometry.groups == 1 and geometry.macs <= SMALL):
        return LIBRARY if fused else "xla"
    row = _nearest(direction, geometry, rows)
    if row is None:
        return LIBRARY if fused else _unmeasured(direction, geometry)
    times = {**row.milliseconds, **row.constant} if constant else row.milliseconds
    allowed = {
        name: time
        for name, time in times.items()
        if applies(name, direction, geometry)
        and (name != LIBRARY or (library and geometry.macs > SMALL))
        and _is_exact_enough(name, geometry, precise)
        and _is_worth(name, geometry)
    }
    if fused:
        limit = LIBRARY_MARGIN * times.get(LIBRARY, 0)
        better = (name for name, time in allowed.items() if winograd_tile(name) and time <= limit)
        return min(better, key=allowed.__getitem__, default=LIBRARY)
    others = (name for name in allowed if name != "xla")  # in the table's order, which decides between equals
    best = min(others, key=allowed.__getitem__, default="xla")
    if allowed.get(best, math.inf) <= _margin(direction, geometry) * allowed.get("xla", math.inf):
        return best
    if geometry.groups > 1 and (untried := _unmeasured(direction, geometry)) not in times:
        return untried  # its nearest neighbour could not be computed so; XLA's grouped convolutions are plain loops
    return "xla"


def _margin(direction: Direction, g: Geometry) -> float:
    if direction == "data" and prod(g.kernel) == 1 and g.channels <= NARROW:
        return NARROW_MARGIN
    return WEIGHT_MARGIN if direction == "weight" and g.channels > IMAGE_CHANNELS else MARGIN


def _is_worth(name: str, g: Geometry) -> bool:
    """Return whether it pays: Winograd's transformations cost as channels, its products as their square."""
    return not name.startswith("winograd") or min(g.channels, g.filters) >= WINOGRAD_CHANNELS


def _is_exact_enough(name: str, g: Geometry, precise: bool) -> bool:
    return not name.startswith("winograd4") or (g.dtype == "float32" and not precise)


def _nearest(direction: Direction, g: Geometry, rows: Sequence[Measured]) -> Measured | None:
    """Return the measured row that is nearest, the first of equals; None where nothing of the kind was measured."""
    kind = _kind(g)
    alike = [row for row in rows if row.direction == direction and _kind(row.geometry) == kind]
    return min(alike, key=lambda row: _distance(g, row.geometry), default=None)


def _kind(g: Geometry) -> tuple[str, bool, bool]:
    groups = "dense" if g.groups == 1 else "depth-wise" if g.groups == g.channels else "grouped"
    return groups, prod(g.kernel) == 1, max(g.stride) > 1


def _distance(a: Geometry, b: Geometry) -> float:
    """Return the distance: 0 of equals, 1 where one size doubles; other forms of windows are half that apart."""
    pairs = zip(_extents(a), _extents(b), strict=True)
    form = 0.5 * ((a.kernel, a.stride, a.dilate, len(a.size)) != (b.kernel, b.stride, b.dilate, len(b.size)))
    return form + math.fsum(abs(math.log2(x / y)) for x, y in pairs)


def _extents(g: Geometry) -> tuple[int, ...]:
    in_group, out_group = g.channels // g.groups, g.filters // g.groups
    return tuple(max(1, n) for n in (g.batch, prod(g.out_size), in_group, out_group, g.groups, prod(g.kernel)))


def _unmeasured(direction: Direction, g: Geometry) -> str:
    """Return what saves most of the work elsewhere, where nothing of the kind was measured."""
    return next(name for name in ("rows", "shifts", "product", "phases", "xla") if applies(name, direction, g))


def forget() -> None:
    """Read the tables again when the next algorithm is chosen."""
    rows_of.cache_clear()
    choose.cache_clear()
