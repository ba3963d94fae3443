"""The index of a record file (`.idx`): lines of a key, a tab and the byte at which the key's record begins.

A missing index is made by reading the head of every record, as MXNet's `rec2idx` makes it: keys count from 0.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from symjax_nnvm.errors import RecordFormatError
from symjax_nnvm.io.files import PositionedFile, StrPath, read_bounded, write_file
from symjax_nnvm.mxnet.record_format import end_of_record
from symjax_nnvm.progress import bar

_LINE = 64
"""Bytes of a line, at most: two numbers of 64 bits with signs, and what ends the line."""

_LEAST_RECORD = 8
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


def index_beside(path: StrPath) -> Path:
    """Return the path at which MXNet puts the index of a record file."""
    return Path(os.path.splitext(path)[0] + ".idx")


def index_line(key: int, offset: int) -> bytes:
    """Return one line of an index, as MXNet writes it."""
    return b"%d\t%d\n" % (key, offset)


def read_index(path: StrPath, file: PositionedFile) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys (n,) and the bytes (n,) at which their records begin, int64, in the index's order.

    Raises RecordFormatError for anything that is not an index of this file, FileError, OSError.
    """
    size = file.size
    data = read_bounded(path, _LINE * (size // _LEAST_RECORD + 1), "the index of its record file", RecordFormatError)
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    numbers = np.empty((len(lines), 2), np.int64)
    for i, line in enumerate(lines):
        numbers[i] = _numbers(line, path, i)
    keys, offsets = numbers[:, 0].copy(), numbers[:, 1].copy()
    wrong = np.flatnonzero((offsets < 0) | (offsets > size - _LEAST_RECORD) | (offsets % 4 != 0))
    if wrong.size:
        raise RecordFormatError(
            f"{os.fspath(path)}: line {wrong[0] + 1} points outside of {file.path}",
            expected=f"a multiple of 4, at most {size - _LEAST_RECORD}: the file has {size} bytes",
            got=offsets[wrong[0]],
            fix="The index belongs to another file, or the file is cut off. Copy both again, or remove the "
            "index, and RecordFile makes one.",
        )
    return keys, offsets


def _numbers(line: bytes, path: StrPath, i: int) -> tuple[int, int]:
    fields = line.split(b"\t") if len(line) <= _LINE else []
    try:
        key, offset = (int(field) for field in fields)
        if -(2**63) <= key < 2**63 > abs(offset):
            return key, offset
    except ValueError:
        pass
    raise RecordFormatError(
        f"{os.fspath(path)} is not an index: line {i + 1} is not a key, a tab and a number",
        got=repr(line[:_LINE]),
        fix="The keys of an index must be whole numbers. Remove the file, or pass another as index=, and "
        "RecordFile makes one, with keys from 0.",
    )


def make_index(file: PositionedFile, progress: bool = True) -> np.ndarray:
    """Return the byte at which each record of a file begins, int64 (n,), by all heads. Raises RecordFormatError."""
    offsets: list[int] = []
    at, size = 0, file.size
    with bar(f"reading {Path(file.path).name}", size, progress) as advance:
        while at < size:
            offsets.append(at)
            at = end_of_record(file, at)
            advance(at)
    return np.array(offsets, np.int64)


def whole_index(path: StrPath, file: PositionedFile) -> tuple[np.ndarray, np.ndarray] | None:
    """Return what `read_index` gives, where the index is one of this file from its first record to its last; else None.

    Raises FileError, OSError.
    """
    try:
        keys, offsets = read_index(path, file)
        is_whole = len(offsets) and offsets.min() == 0 and end_of_record(file, int(offsets.max())) >= file.size
        return (keys, offsets) if is_whole else None
    except RecordFormatError:
        return None


def save_index(path: StrPath, offsets: Iterable[int]) -> bool:
    """Write an index of keys from 0; returns whether that was possible, which needs a folder one may write to."""
    try:
        write_file(path, b"".join(index_line(key, offset) for key, offset in enumerate(offsets)))
    except OSError as error:
        if error.errno in _NOT_WRITABLE:
            return False
        raise
    return True
