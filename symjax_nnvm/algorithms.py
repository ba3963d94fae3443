"""`choose`: which algorithm computes a convolution fastest, by a table of measurements of the platform.

A convolution's geometry is looked up among those measured in the same direction. What was fastest for the nearest of
them, of what can compute this one, is taken: nearest in the sum of |log₂| of the ratios of batch, places of the output,
channels, filters, groups and elements of the window, among those that are as dense, as pointwise and as strided.
`benchmarks/convolutions.py` measures the tables; a table of the user's own (`user_table`) is added to ours and goes
first where both know a geometry. A platform without a table was not measured: everything is left to XLA there.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from math import prod
from pathlib import Path
from typing import Any, get_args

from symjax_nnvm.errors import FileError, explain, printable
from symjax_nnvm.geometry import LIBRARY, Direction, Geometry, applies, winograd_tile
from symjax_nnvm.io.files import StrPath, cache_folder, read_bounded, write_file

__all__ = ["Direction", "Geometry", "Measured", "Table", "choose", "forget", "read_table", "user_table", "write_table"]

MAX_BYTES = 1 << 24

MARGIN = 0.95
"""What is to replace XLA's convolution takes at most this part of its time: less is within the noise."""

LIBRARY_MARGIN = 0.85
"""Winograd's algorithm takes at most this part of the library's time, or the library is taken: bias, sum and activation
are passes of their own after Winograd's."""

WINOGRAD_CHANNELS = 16
"""Fewer channels or filters than were measured."""

SMALL = 1_000_000
"""Multiplications of a dense convolution up to which XLA's takes no time that matters, and compiles fastest."""


@dataclass(frozen=True)
class Measured:
    """Milliseconds by algorithm of one direction of one geometry.

    constant: of algorithms that make something of the weight first, the time without, as where the weight is constant.
    """

    direction: Direction
    geometry: Geometry
    milliseconds: Mapping[str, float]
    constant: Mapping[str, float]


@dataclass(frozen=True)
class Table:
    """What was measured on a machine. about: words on machine, versions and options, for people."""

    platform: str
    about: Mapping[str, str]
    rows: Sequence[Measured]


# -- the choice ------------------------------------------------------------------------------------------------------


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
    """The name of an algorithm that can compute a direction of a geometry, the fastest as far as was measured.

    platform: "cpu", …; on one without a table, "xla". precise: none whose float32 errors exceed 1e-6 of scale, which
    F(4×4)'s do; nor ever in float64. constant: what is made of the weight alone is made once, before. library: a
    library of the platform may be called; where the weight is constant, and it does what follows in the same pass, it
    is taken unless Winograd's algorithm saves much more. Raises FileError for a table of the user's that is none.
    """
    if not isinstance(geometry.macs, int):  # a size that an exported program leaves open
        return "xla"
    rows = _rows(platform)
    fused = library and constant
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
    best = min(allowed, key=allowed.__getitem__, default="xla")
    if best == "xla" and geometry.groups > 1 and (untried := _unmeasured(direction, geometry)) not in times:
        return untried  # its nearest neighbour could not be computed so; XLA's grouped convolutions are plain loops
    return "xla" if best not in allowed or allowed[best] > MARGIN * allowed.get("xla", math.inf) else best


def _is_worth(name: str, g: Geometry) -> bool:
    """Winograd's transformations cost as many as channels are, its products as their square: few gain nothing."""
    return not name.startswith("winograd") or min(g.channels, g.filters) >= WINOGRAD_CHANNELS


def _is_exact_enough(name: str, g: Geometry, precise: bool) -> bool:
    return not name.startswith("winograd4") or (g.dtype == "float32" and not precise)


def _nearest(direction: Direction, g: Geometry, rows: Sequence[Measured]) -> Measured | None:
    """The measured row that is nearest, the first of equals; None where nothing of the kind was measured."""
    kind = _kind(g)
    alike = [row for row in rows if row.direction == direction and _kind(row.geometry) == kind]
    return min(alike, key=lambda row: _distance(g, row.geometry), default=None)


def _kind(g: Geometry) -> tuple[str, bool, bool]:
    groups = "dense" if g.groups == 1 else "depth-wise" if g.groups == g.channels else "grouped"
    return groups, prod(g.kernel) == 1, max(g.stride) > 1


def _distance(a: Geometry, b: Geometry) -> float:
    """0 of equals; of what doubles in one respect, 1; windows of another form are half that apart."""
    pairs = zip(_extents(a), _extents(b), strict=True)
    form = 0.5 * ((a.kernel, a.stride, a.dilate, len(a.size)) != (b.kernel, b.stride, b.dilate, len(b.size)))
    return form + math.fsum(abs(math.log2(x / y)) for x, y in pairs)


def _extents(g: Geometry) -> tuple[int, ...]:
    in_group, out_group = g.channels // g.groups, g.filters // g.groups
    return tuple(max(1, n) for n in (g.batch, prod(g.out_size), in_group, out_group, g.groups, prod(g.kernel)))


def _unmeasured(direction: Direction, g: Geometry) -> str:
    """Where nothing of the kind was measured, what saves most of the work elsewhere."""
    return next(name for name in ("rows", "shifts", "product", "phases", "xla") if applies(name, direction, g))


# -- tables ----------------------------------------------------------------------------------------------------------


def user_table(platform: str) -> Path:
    """Where the user's own table of a platform is, if there is one."""
    return cache_folder() / f"algorithms_{platform}.json"


def forget() -> None:
    """Read the tables again when the next algorithm is chosen."""
    _rows.cache_clear()
    choose.cache_clear()


@cache
def _rows(platform: str) -> tuple[Measured, ...]:
    """The rows of the user's table and of ours."""
    ours = Path(__file__).with_name(f"algorithms_{platform}.json")
    return tuple(row for path in (user_table(platform), ours) if path.is_file() for row in read_table(path).rows)


def write_table(path: StrPath, table: Table) -> None:
    """Write a table as JSON, a line for each row. Raises as `files.write_file`."""
    rows = [
        {"direction": row.direction, **asdict(row.geometry), "milliseconds": row.milliseconds, "constant": row.constant}
        for row in table.rows
    ]
    head = {"platform": table.platform, "about": table.about}
    lines = ",\n".join(json.dumps(row) for row in rows)
    write_file(path, json.dumps(head, indent=1)[:-2] + f',\n "rows": [\n{lines}\n]}}\n')


def read_table(path: StrPath) -> Table:
    """Read a table. Raises FileError for what is none."""
    data = read_bounded(path, MAX_BYTES, "a table of algorithms")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise _refused(path, "JSON", "other text") from None
    table = _object(path, found, "the table")
    rows = [_row(path, _object(path, row, "a row")) for row in _expect(path, table.get("rows"), list, "rows")]
    about = {str(k): str(v) for k, v in _object(path, table.get("about"), "about").items()}
    return Table(_expect(path, table.get("platform"), str, "platform"), about, rows)


def _row(path: StrPath, row: Mapping[str, Any]) -> Measured:
    direction: Any = row.get("direction")
    if direction not in get_args(Direction):
        raise _refused(path, f"direction as one of {', '.join(get_args(Direction))}", direction)
    values = {field.name: row.get(field.name) for field in fields(Geometry)}
    rank = len(_expect(path, values["size"], list, "size"))
    for name, value in values.items():
        if name == "dtype":
            _expect(path, value, str, name)
        elif name in ("batch", "channels", "filters", "groups"):
            values[name] = _whole(path, value, name, 1)
        else:
            numbers = _expect(path, value, list, name)
            if len(numbers) != rank or not 1 <= rank <= 3:
                raise _refused(path, f"{name} with a number for each of 1 to 3 spatial axes", numbers)
            values[name] = tuple(_whole(path, n, name, 0 if name == "pad" else 1) for n in numbers)
    geometry = Geometry(**values)  # pyright: ignore[reportArgumentType]
    if min(geometry.out_size) < 1 or geometry.channels % geometry.groups or geometry.filters % geometry.groups:
        raise _refused(path, "a geometry with an output, whose groups divide channels and filters", geometry)
    return Measured(direction, geometry, *(_times(path, row.get(name), name) for name in ("milliseconds", "constant")))


def _times(path: StrPath, value: object, name: str) -> dict[str, float]:
    """Times by algorithm. Names that are not ours pass: tables outlive algorithms, and no one asks for them."""
    times = _object(path, value, name)
    for time in times.values():
        if isinstance(time, bool) or not isinstance(time, int | float) or not 0 < time < math.inf:
            raise _refused(path, f"{name} as positive numbers", time)
    return {key: float(time) for key, time in times.items()}


def _whole(path: StrPath, value: object, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1 << 31:
        raise _refused(path, f"{name} as whole numbers of {least} to 2³¹", value)
    return value


def _object(path: StrPath, value: object, name: str) -> dict[str, Any]:
    return _expect(path, value, dict, name)


def _expect(path: StrPath, value: object, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        word = {dict: "an object", list: "a list", str: "a text"}[kind]
        raise _refused(path, f"{name} as {word}", value)
    return value


def _refused(path: StrPath, expected: str, got: object) -> FileError:
    return FileError(
        explain(
            f"{printable(os.fspath(path))} is no table of algorithms.",
            expected=expected,
            got=printable(str(got)[:200]),
            fix="Remove the file, or measure it again: python benchmarks/convolutions.py --write FILE.",
        )
    )
