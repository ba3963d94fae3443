"""The command prints tables, JSON, notes, and progress.

Rich makes tables and progress of it on a terminal, if it is installed (extra `cli`). It is not required: a command that
answers "will my model run?" should not first ask for a package, and into files and pipes goes plain text anyway.
"""

from __future__ import annotations

import io
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TextIO, TypeVar

from symjax_nnvm.errors import printable, printable_lines
from symjax_nnvm.tables import table_text

T = TypeVar("T")

_WORTH_A_LINE = 1.0
"""Seconds after which a log, which shows no progress, gets a line with the time that a step took."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> None:
    """A table on stdout; the last `right` columns are numbers."""
    if not _rich(sys.stdout):
        print(table_text(columns, rows, right))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i >= len(columns) - right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


def print_json(value: Any) -> None:
    """Print JSON on stdout; infinities and NaN, which JSON does not have, as strings."""
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


def show(text: str) -> None:
    """Print lines on stdout, safe on a terminal."""
    print(printable_lines(text))


def note(text: str) -> None:
    """Print a line on stderr, safe on a terminal."""
    print(" ".join(printable(" ".join(line.split("\t")).strip()) for line in text.split("\n")).strip(), file=sys.stderr)


def safe_streams() -> None:
    """Print characters that the terminal's encoding lacks as escapes, in place of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on stderr that something is going on: a spinner on a terminal, a line afterwards in a log."""
    began = time.perf_counter()
    if _rich(sys.stderr):
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            progress.add_task(what, total=None)
            yield
        return
    if sys.stderr.isatty():
        note(f"{what} …")
    yield
    took = time.perf_counter() - began
    if took > _WORTH_A_LINE:
        note(f"{what}: {took:.1f} s")


def steps(what: str, items: Iterable[T], total: int) -> Iterator[T]:
    """Yield the items, with a bar on stderr that shows how many are done; in a log a line at the end."""
    if _rich(sys.stderr):
        from rich.console import Console
        from rich.progress import track

        yield from track(items, what, total, console=Console(stderr=True), transient=True)
        return
    with working(f"{what} ({total})"):
        yield from items


def _rich(stream: TextIO) -> bool:
    return stream.isatty() and find_spec("rich") is not None


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
    return value
