"""Kinds of array files: one row each for how such files are named, recognised by first bytes, read and written.

Every loader, `save_arrays`, the command and the error "this is not a symbol file" use these rows and nothing else, so a
new kind of file is one row: `register_format(FileFormat(...))`. The library's own rows are in `mxnet/array_formats.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from symjax_nnvm.errors import ParamsFormatError

HEAD = 64
"""Bytes of a file's beginning by which its format is recognised."""


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A kind of array file.

    name: its name for `convert --to`. title: its name in messages. suffixes: how such files' names end, in lower
    case; the first is that of files that are written. sniff: whether a file that begins with these bytes (at most
    `HEAD`) and has this size is one. read: arrays, by name or as a list, of an open file, whose name is in errors; it
    raises ParamsFormatError for a malformed one. write: arrays by name or as a list into an open file; it raises
    ParamsFormatError for what the file cannot hold; None: such files are only read. named: whether arrays have names,
    as a model's must. extra: the extra of this library that reading needs.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    sniff: Callable[[bytes, int], bool]
    read: Callable[[BinaryIO], Any]
    write: Callable[[BinaryIO, Mapping[str, Any] | Sequence[Any]], None] | None = None
    named: bool = True
    extra: str | None = None


FORMATS: dict[str, FileFormat] = {}
"""Name → row, in the order in which they came."""


def register_format(row: FileFormat) -> FileFormat:
    """Add a kind of file. Raises ParamsFormatError for a name or a suffix that another has."""
    taken = {suffix: other.name for other in FORMATS.values() for suffix in other.suffixes}
    clash = next((suffix for suffix in row.suffixes if suffix in taken), None)
    if row.name in FORMATS or clash is not None:
        what = f"suffix {clash!r}, which is of {taken[clash]!r}" if clash is not None else "name, which is taken"
        raise ParamsFormatError(f"The file format {row.name!r} cannot have this {what}.")
    FORMATS[row.name] = row
    return row


def format_of_bytes(head: bytes, size: int) -> FileFormat | None:
    """Return the kind of a file of a size that begins like this; None when it is not an array file. The newest row is
    tried first: it may be a special case of another."""
    return next((row for row in reversed(FORMATS.values()) if row.sniff(head, size)), None)


def format_of_name(path: str | os.PathLike[str]) -> FileFormat | None:
    """Return the kind of file by its name's end; None for an unknown end."""
    name = os.fsdecode(path).lower()
    return next((row for row in FORMATS.values() if name.endswith(row.suffixes)), None)


def array_suffixes(*, named: bool = False, written: bool = False) -> tuple[str, ...]:
    """Return the suffixes of array files. named: only of formats with names; written: only of written formats."""
    rows = (row for row in FORMATS.values() if (row.named or not named) and (row.write or not written))
    return tuple(suffix for row in rows for suffix in row.suffixes)
