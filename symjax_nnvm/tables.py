"""Tables as plain text, what reports print wherever they go, and as HTML, what notebooks show of them.

Names come from files of strangers: what a terminal would take for a command is shown as an escape.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from symjax_nnvm.drawing.page import scrolling
from symjax_nnvm.errors import printable

_WHOLE = 40
"""Characters of a cell that is not broken into lines."""

_ROWS = 24
"""Rows of a table that is shown at its full height."""


def table_text(columns: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0) -> str:
    """Aligned columns under a ruled header; the last `right` columns are numbers and stand on the right."""
    lines = [columns, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    left = len(columns) - right

    def text(line: Sequence[str]) -> str:
        cells = (c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        return "  ".join(cells).rstrip()

    return "\n".join([text(columns), "  ".join("-" * width for width in widths), *map(text, lines[1:])])


def count_text(number: int | None) -> str:
    """Return a count with separators; `-` when it is not known."""
    return "-" if number is None else f"{number:,}"


def table_html(columns: Sequence[str], rows: Sequence[Sequence[str]], right: int = 0, notes: Iterable[str] = ()) -> str:
    """A table for notebooks; the last `right` columns are numbers, and notes are lines under it. Nothing in a cell is
    taken for HTML. Short cells are not broken, long ones not squeezed to a word a line, and a long table scrolls."""
    left = len(columns) - right

    def cell(tag: str, i: int, text: str) -> str:
        breaks = "white-space:nowrap" if len(text) <= _WHOLE else "min-width:20em"
        side = "left" if i < left else "right"
        return f'<{tag} style="text-align:{side};{breaks}">{escape(printable(text))}</{tag}>'

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(cell(tag, i, text) for i, text in enumerate(cells))

    head, body = line("th", columns), "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return (scrolling(table) if len(rows) > _ROWS else table) + lines_html(notes)


def lines_html(lines: Iterable[str]) -> str:
    """Return lines of text for notebooks."""
    return "".join(f"<div>{escape(printable(line))}</div>" for line in lines)
