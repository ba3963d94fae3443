"""Zip files of `.npy` arrays: MXNet 2.0's, and NumPy's `.npz`. Nothing that an archive claims is trusted."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from symjax_nnvm.errors import ParamsFormatError
from symjax_nnvm.mxnet.array_file import MAX_NAME, Arrays
from symjax_nnvm.mxnet.npy_file import read_npy
from symjax_nnvm.mxnet.sparse import sparse_from_members

MAX_MEMBERS = 1 << 16
MAX_INFLATION = 8
"""How many times larger than itself what a zip file holds may be: MXNet stores its arrays uncompressed."""

_SMALL = 1 << 20  # bytes that may be in any zip file
_LOCAL_HEADER = 30  # bytes before each member's name
_MAX_DIRECTORY = MAX_MEMBERS * 256  # bytes of a zip file's directory, which Python decodes before it counts
_PIECE = 1 << 20


def is_zip(head: bytes, size: int) -> bool:
    """Return whether a file that begins like this is a zip file."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def read_zip(file: BinaryIO) -> Arrays:
    """Return the arrays of an open zip file: a dict by name, or a list where they are numbered, as `numpy.savez` does.

    Raises ParamsFormatError.
    """
    path, size = file.name, os.fstat(file.fileno()).st_size
    arrays: dict[str, Any] = {}
    sparse: dict[str, dict[str, Any]] = {}
    try:
        with zipfile.ZipFile(_Bounded(file, size)) as archive:  # type: ignore[arg-type]
            members = archive.infolist()
            _check_members(members, path, size)
            for member in members:
                what = f"{path}, member {member.filename[:200]!r}"
                name = member.filename.removesuffix(".npy")
                folder, _, part = name.rpartition("/")
                if folder and f"{folder}/format.npy" in archive.NameToInfo:
                    content = _member(archive, member, what)
                    sparse.setdefault(folder, {})[part] = content if part == "format" else read_npy(content, what)
                else:
                    arrays[name] = read_npy(_member(archive, member, what), what)
    except ParamsFormatError:
        raise
    except (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, ValueError, *_ZIP_ERRORS) as error:
        raise ParamsFormatError(f"{path} is not a readable zip file: {error}.") from None
    except OSError as error:
        raise ParamsFormatError(f"{path} cannot be read: {error}.") from None
    for name, parts in sparse.items():
        try:
            arrays[name] = sparse_from_members(parts)
        except ValueError as error:
            raise ParamsFormatError(f"{path}, sparse array {name!r}: {error}.") from None
    numbered = [f"arr_{i}" for i in range(len(arrays))]
    return [arrays[name] for name in numbered] if arrays and set(arrays) == set(numbered) else arrays


# What Python's zipfile raises besides its own error: unknown compression, encryption, fields that are cut short, and
# offsets that do not fit.
_ZIP_ERRORS = (NotImplementedError, RuntimeError, struct.error, OverflowError, IndexError)


class _Bounded:
    """A file that refuses to read a large piece at once: `zipfile` trusts its directory. It reads by pieces."""

    def __init__(self, file: BinaryIO, size: int):
        self._file = file
        self._limit = min(size, _MAX_DIRECTORY)
        self.seek, self.tell, self.close, self.seekable = file.seek, file.tell, file.close, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Read bytes, as `file.read` does. Raises ParamsFormatError."""
        if size > self._limit:
            raise ParamsFormatError(f"{self._file.name} claims a part of {size} bytes, more than {self._limit}.")
        return self._file.read(size)


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, what: str) -> memoryview:
    """The bytes of a member, read by pieces: neither of its sizes is trusted. Raises ParamsFormatError."""
    size, at = member.file_size, 0
    content = np.empty(size, np.uint8).data
    member.file_size += _PIECE  # bytes too many are read, not cut off
    with archive.open(member) as opened:
        while piece := opened.read(min(_PIECE, size + 1 - at)):
            if at + len(piece) > size:
                raise ParamsFormatError(f"{what} holds more than the {size} bytes that the archive's directory claims.")
            content[at : at + len(piece)] = piece
            at += len(piece)
    if at < size:
        raise ParamsFormatError(f"{what} holds {at} bytes, {size} are claimed: the file is truncated.")
    return content.toreadonly()


def _check_members(members: Sequence[zipfile.ZipInfo], path: str, size: int) -> None:
    """Refuse archives that grow when they are unpacked. Raises ParamsFormatError."""
    if len(members) > MAX_MEMBERS:
        raise ParamsFormatError(f"{path} has {len(members)} members, expected at most {MAX_MEMBERS}.")
    claimed, end = 0, 0
    for member in sorted(members, key=lambda member: member.header_offset):
        what = f"{path}, member {member.filename[:200]!r}"
        if not member.filename.endswith(".npy"):
            raise ParamsFormatError(f"{what} is not a .npy array.")
        if len(member.filename) > MAX_NAME:
            raise ParamsFormatError(f"{what} has a name of {len(member.filename)} characters, more than {MAX_NAME}.")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ParamsFormatError(f"{what} is compressed by method {member.compress_type}, expected 0 or 8.")
        if member.header_offset < end:
            raise ParamsFormatError(f"{what} overlaps the member before it.")
        end = member.header_offset + _LOCAL_HEADER + member.compress_size
        claimed += member.file_size
        if claimed > MAX_INFLATION * size + _SMALL or end > size:
            raise ParamsFormatError(
                f"{what} claims {member.file_size} bytes in {member.compress_size}, {claimed} bytes with the members "
                f"before it, in a file of {size}. A zip file may hold {MAX_INFLATION} times its size; write it "
                "uncompressed, with numpy.savez."
            )
    try:
        np.empty(claimed, np.uint8)  # a sparse file may be as long as it likes
    except (MemoryError, ValueError):
        raise ParamsFormatError(f"{path} holds {claimed} bytes of arrays, which do not fit into memory.") from None
