"""RecordIO, the format of MXNet's data sets: the layout of a record in a `.rec` file, and the header of an image.

A record is one part or several. A part is the magic number, a word with a flag (its upper 3 bits) and a length (the
lower 29), as many bytes, and zeros up to the next multiple of 4; all numbers are little-endian. A record in one part
has flag 0. Where the magic number stands in the data, at a multiple of 4 bytes, the record is split and the magic
number left out: the first part has flag 1, the last 3, those between 2; the reader puts it back. So the magic number
at a multiple of 4 always begins a part. Source of the format: dmlc-core's `recordio.cc` and MXNet's `mx.recordio`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from numbers import Number
from typing import Any, NamedTuple, Self

import numpy as np

from symjax_nnvm.errors import CallError, RecordFormatError
from symjax_nnvm.io.files import PositionedFile
from symjax_nnvm.io.guess import guess_file_type

MAGIC = 0xCED7230A
MAX_RECORD = (1 << 29) - 1
"""Bytes of a record, at most: lengths have 29 bits, and MXNet's writer takes no larger one."""

_EXAMPLE = "IRHeader(flag, label, id, id2), such as IRHeader(0, 3.0, 7, 0)"
_MAGIC = struct.pack("<I", MAGIC)
_PART = struct.Struct("<II")
_HEADER = struct.Struct("<IfQQ")
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_FLAGS = {_WHOLE: "a whole record", _FIRST: "a record's first part", _MIDDLE: "a middle part", _LAST: "a last part"}


class _Fields(NamedTuple):
    flag: int
    label: float | np.ndarray
    id: int
    id2: int


class IRHeader(_Fields):
    """The header before an image's bytes in a record, made of its four fields.

    Attributes:
        flag: the number of labels that follow the header; 0 for one label in it.
        label: the label, or an array (flag,) float32 of several.
        id: the image's number in the list that the file was made from.
        id2: the high part of the number, usually 0.

    Raises:
        CallError: there are more fields, or fewer.
    """

    __slots__ = ()

    def __new__(cls, *fields: Any, **named: Any) -> Self:
        """Make a header of four fields, in their order or by their names."""
        try:
            return super().__new__(cls, *fields, **named)
        except TypeError:
            got = ", ".join([*map(repr, fields), *(f"{name}={value!r}" for name, value in named.items())])
            raise CallError("A header must have four fields", expected=_EXAMPLE, got=f"IRHeader({got:.100})") from None

    def __repr__(self) -> str:
        fields = zip(self._fields, self, strict=True)
        return f"HEADER({', '.join(f'{name}={value!r}' for name, value in fields)})"


# -- records ---------------------------------------------------------------------------------------------------------


def frame(data: bytes) -> bytes:
    """Return the bytes of a record in a file. Raises RecordFormatError for one that is too large."""
    if len(data) > MAX_RECORD:
        fix = "Split it into several records."
        raise RecordFormatError(
            "The record is too large", expected=f"at most {MAX_RECORD} bytes", got=len(data), fix=fix
        )
    parts = list(_split(data))
    flags = [_WHOLE] if len(parts) == 1 else [_FIRST, *[_MIDDLE] * (len(parts) - 2), _LAST]
    framed = [_PART.pack(MAGIC, flag << 29 | len(part)) + part for flag, part in zip(flags, parts, strict=True)]
    return b"".join(framed) + bytes(-len(data) % 4)


def _split(data: bytes) -> Iterator[bytes]:
    start = 0
    at = data.find(_MAGIC)
    while at >= 0:
        if at % 4 == 0:
            yield data[start:at]
            start = at + 4
        at = data.find(_MAGIC, at + 1)
    yield data[start:]


def read_record(file: PositionedFile, offset: int) -> bytes:
    """Return the record that begins at a byte of a file. Raises RecordFormatError, OSError."""
    pieces = bytearray()
    for flag, start, length in _parts(file, offset):
        if flag in (_MIDDLE, _LAST):
            pieces += _MAGIC
        data = file.read(start, length)
        if len(data) < length:  # cut off since its length was held against the file's
            raise _truncated(file, offset, f"{length} bytes from {start} on")
        if flag == _WHOLE:
            return data
        pieces += data
    return bytes(pieces)


def end_of_record(file: PositionedFile, offset: int) -> int:
    """Return the byte at which the next record begins; all parts are in the file. Raises RecordFormatError, OSError."""
    end = offset
    for _, start, length in _parts(file, offset):
        end = _aligned(start + length)
    return end


def _parts(file: PositionedFile, offset: int) -> Iterator[tuple[int, int, int]]:
    """Yield (flag, where its data begin, their length) of each part of a record."""
    size, at, total = file.size, offset, 0
    allowed = (_WHOLE, _FIRST)
    while True:
        head = file.read(at, _PART.size)
        if len(head) < _PART.size:
            raise _truncated(file, offset, f"the head of a part at byte {at}")
        magic, word = _PART.unpack(head)
        flag, length = word >> 29, word & MAX_RECORD
        if magic != MAGIC:
            raise _no_record(file, offset, at, head)
        if flag not in allowed:
            got = _FLAGS.get(flag, f"flag {flag}")
            expected = " or ".join(_FLAGS[one] for one in allowed)
            raise RecordFormatError(
                f"{file.path}: {got} at byte {at}, in the record at byte {offset}",
                expected=expected,
                fix=_FOREIGN_INDEX if at == offset else _DAMAGED,
            )
        at += _PART.size
        total += length + 4 * (flag in (_MIDDLE, _LAST))
        if at + length > size:
            raise _truncated(file, offset, f"{length} bytes from {at} on")
        if total > MAX_RECORD:
            expected = f"at most {MAX_RECORD} bytes, the most that MXNet writes"
            raise RecordFormatError(
                f"{file.path}: the record at byte {offset} is too large", expected=expected, got=total, fix=_DAMAGED
            )
        yield flag, at, length
        if flag in (_WHOLE, _LAST):
            return
        at = _aligned(at + length)
        allowed = (_MIDDLE, _LAST)


def _aligned(at: int) -> int:
    return at + -at % 4


_DAMAGED = "The file is damaged: copy it again, or make it again."
_FOREIGN_INDEX = (
    "The index (.idx) belongs to another file, or this one is damaged. Remove the index, and RecordFile makes one; "
    "`symjax-nnvm records verify FILE` reads every record."
)


def _truncated(file: PositionedFile, offset: int, what: str) -> RecordFormatError:
    return RecordFormatError(
        f"{file.path} ends within the record at byte {offset}: {what}, and the file has {file.size} bytes",
        fix="It is cut off, or its writer was stopped: copy it again. In a copy, "
        f"`truncate -s {offset} COPY` keeps the records before; remove its index, and RecordFile makes one.",
    )


def _no_record(file: PositionedFile, offset: int, at: int, head: bytes) -> RecordFormatError:
    kind = guess_file_type(head, file.size) if at == 0 else None
    if kind is not None:
        return RecordFormatError(f"{file.path} is not a record file: it is {kind}.")
    return RecordFormatError(
        f"{file.path}: no part of a record begins at byte {at}, in the record at byte {offset}",
        expected=f"the magic number {_MAGIC.hex()}",
        got=head[:4].hex(),
        fix="It is not a record file (.rec), or is damaged: copy it again." if at == 0 else _FOREIGN_INDEX,
    )


# -- images in records -----------------------------------------------------------------------------------------------


def pack(header: IRHeader | tuple[int, float | np.ndarray, int, int], s: bytes) -> bytes:
    """Make a record of a header and an image's bytes, as MXNet's `recordio.pack` does.

    Args:
        header: the header, or its four fields as a tuple. Several labels are written after it as float32, and the flag
            is their number.
        s: the image's bytes.

    Raises:
        RecordFormatError: a number does not fit into its field.
        CallError: `header` is not a header, or `s` is not bytes.
    """
    try:
        flag, label, number, number2 = header
    except (TypeError, ValueError):
        raise CallError(
            "This is not the header of a record", param="header", expected=_EXAMPLE, got=f"{header!r:.100}"
        ) from None
    if not isinstance(s, bytes | bytearray | memoryview):
        fix = "Convert text with text.encode(); use pack_img for an image."
        raise CallError("A record must be packed from bytes", param="s", got=type(s).__name__, fix=fix)
    try:
        if not isinstance(label, Number):  # an array without axes is an array, as in MXNet
            labels = np.asarray(label, "<f4")
            flag, label, s = labels.size, 0.0, labels.tobytes() + s
        else:
            flag = 0
        return _HEADER.pack(flag, label, number, number2) + s
    except (struct.error, OverflowError, TypeError, ValueError) as error:
        expected = "a label of float32, and whole numbers from 0 to 2^64 - 1 as id and id2"
        raise RecordFormatError("The header cannot be written", expected=expected, got=f"{header!r:.200}") from error


def unpack(s: bytes, where: str = "The record") -> tuple[IRHeader, bytes]:
    """Split a record into its header and the image's bytes, as MXNet's `recordio.unpack` does.

    Args:
        s: the record's bytes.
        where: the record's name in messages.

    Returns:
        The header, its label an array (flag,) where there are several; the bytes after it.

    Raises:
        RecordFormatError: the record is shorter than its header declares.
        CallError: `s` is not bytes.
    """
    try:
        memoryview(s)
    except TypeError:
        fix = "Pass what MXRecordIO.read() returns; it returns None at the end of the file." if s is None else None
        raise CallError("A record must be bytes", param="s", got=type(s).__name__, fix=fix) from None
    if len(s) < _HEADER.size:
        raise _no_image(where, f"{_HEADER.size} bytes of a header", f"{len(s)} bytes")
    flag, label, number, number2 = _HEADER.unpack_from(s)
    start = _HEADER.size + 4 * flag
    if start > len(s):
        raise _no_image(where, f"{flag} labels after the header", f"{len(s) - _HEADER.size} bytes")
    labels = label if not flag else np.frombuffer(s, "<f4", flag, _HEADER.size).astype(np.float32)
    return IRHeader(flag, labels, number, number2), s[start:]


def read_header(file: PositionedFile, offset: int, where: str) -> IRHeader:
    """The header of the record at a byte of a file; of an image in one part only the header is read. Raises
    RecordFormatError, OSError."""
    head = file.read(offset, _PART.size + _HEADER.size)
    if len(head) == _PART.size + _HEADER.size:
        magic, word = _PART.unpack_from(head)
        flag, length = word >> 29, word & MAX_RECORD
        if magic == MAGIC and flag == _WHOLE and length >= _HEADER.size and not head[8:12].strip(b"\0"):
            return unpack(head[_PART.size :])[0]
    return unpack(read_record(file, offset), where)[0]


def _no_image(where: str, expected: str, got: str) -> RecordFormatError:
    fix = "It does not hold a label and an image: read its bytes with file[i]."
    return RecordFormatError(f"{where} has no header of an image", expected=expected, got=got, fix=fix)
