"""Tables as plain text: what reports print wherever they go, a file included.

Names come from files that anybody may have written: what a terminal would take for a command is shown as an escape.
"""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.errors import printable


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
    """A count with separators; `-` when it is not known."""
    return "-" if number is None else f"{number:,}"
