"""The tables of measurements by which algorithms are chosen: ours, by platform, and the user's own.

`benchmarks/convolutions.py` and `lowering.tune` measure them. A user's own table (`user_table`) is added to ours, and
counts first where both have a geometry.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, get_args

from lowering.convolutions.geometry import Direction, Geometry
from symjax_nnvm.errors import FileError, explain, printable
from symjax_nnvm.io.files import StrPath, cache_folder, read_bounded, write_file

__all__ = ["Measured", "Table", "read_table", "rows_of", "user_table", "write_table"]

MAX_BYTES = 1 << 24


@dataclass(frozen=True)
class Measured:
    """Holds milliseconds by algorithm of one direction of one geometry.

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


def user_table(platform: str) -> Path:
    """Return where the user's own table of a platform is, if there is one."""
    return cache_folder() / f"algorithms_{platform}.json"


@cache
def rows_of(platform: str) -> tuple[Measured, ...]:
    """Return the rows of the user's table and of ours. Raises FileError for a malformed table of the user's."""
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
    """Read a table. Raises FileError for anything else."""
    data = read_bounded(path, MAX_BYTES, "a table of algorithms")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise _refused(path, "JSON", "other text") from None
    table = _object(path, document, "the table")
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
    """Return times by algorithm. Names that are not ours pass: tables outlive algorithms, and nothing reads them."""
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
            f"{printable(os.fspath(path))} is not a table of algorithms.",
            expected=expected,
            got=printable(str(got)[:200]),
            fix="Remove the file, or measure it again: python benchmarks/convolutions.py --write FILE.",
        )
    )
