"""`load_arrays` and `save_arrays`: `.params` files of every MXNet generation, told apart by what is in them."""

from __future__ import annotations

import mmap
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from symjax_nnvm.errors import ParamsFormatError, explain
from symjax_nnvm.files import atomic_write, map_file, open_regular
from symjax_nnvm.mxnet.array_file import MAX_NAME, Arrays, is_list_file, read_list, write_list
from symjax_nnvm.mxnet.npy_file import is_npy, read_npy
from symjax_nnvm.mxnet.sparse import sparse_from_members
from symjax_nnvm.recognise import looks_like, require_file

__all__ = ["load_arrays", "save_arrays"]

MAX_MEMBERS = 1 << 16
MAX_INFLATION = 8
"""How many times larger than itself what a zip file holds may be: MXNet stores its arrays uncompressed."""

_SMALL = 1 << 20  # bytes that may be in any zip file
_LOCAL_HEADER = 30  # bytes before each member's name
_MAX_DIRECTORY = MAX_MEMBERS * 256  # bytes of a zip file's directory, which Python decodes before it counts
_PIECE = 1 << 20


def load_arrays(fname: str | os.PathLike[str]) -> Arrays:
    """The arrays of a file that MXNet's `nd.save` or 2.0's `npx.savez` wrote: a dict by name, or a list.

    Dense arrays are views of the mapped file: nothing is copied or read before it is used. While they live the file may
    be replaced or removed, as saving under its name does, but not changed in its place. Sparse ones are
    `RowSparseArray` or `CSRArray`. An array that was never initialised is left out. Raises ParamsFormatError for
    anything malformed, and says what other kinds of files are; ModelNotFoundError, FileError for no regular file,
    OSError.
    """
    path = Path(fname)
    require_file(path)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(64)
        if is_list_file(head):
            return _read_mapped(map_file(file), path)
        if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
            file.seek(0)
            return _read_zip(file, path, size)
        if is_npy(head):
            return [read_npy(map_file(file), str(path))]
    _refuse(path, head, size)


def save_arrays(fname: str | os.PathLike[str], arrays: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write arrays, a dict by name or a list, byte for byte as MXNet 1.9.1's `nd.save` does.

    A file of that name is replaced whole, also while arrays are views of it: loading and saving under one name is safe.
    Raises ParamsFormatError for dtypes and names that MXNet 1.x cannot load, FileError, OSError.
    """
    if not isinstance(arrays, (Mapping, Sequence)) or isinstance(arrays, (str, bytes)):
        raise ParamsFormatError(
            explain(
                "Arrays are saved by name or as a list", got=type(arrays).__name__, fix="Of one array: {'name': array}."
            )
        )
    with atomic_write(fname) as file:
        write_list(file, arrays)


def _read_mapped(data: mmap.mmap, path: Path) -> Arrays:
    """The arrays of a mapped file. Headers lie far apart: the system should not read ahead of them, only of arrays."""
    if hasattr(mmap, "MADV_RANDOM"):
        data.madvise(mmap.MADV_RANDOM)
    arrays = read_list(data, str(path))
    if hasattr(mmap, "MADV_RANDOM"):
        data.madvise(mmap.MADV_NORMAL)
    return arrays


def _refuse(path: Path, head: bytes, size: int) -> NoReturn:
    """Say what a file is that is no array file."""
    if size == 0:
        raise ParamsFormatError(f"{path} is empty.")
    kind = looks_like(head)
    if kind is not None:
        raise ParamsFormatError(f"{path} is {kind}.")
    if size < 32:
        raise ParamsFormatError(
            f"{path} has {size} bytes; the smallest array file has 32. It is truncated, or no array file."
        )
    raise ParamsFormatError(f"{path} is no array file of MXNet: it begins with {head[:8]!r}.")


# -- MXNet 2.0: zip files of .npy ------------------------------------------------------------------------------------


def _read_zip(file: BinaryIO, path: Path, size: int) -> Arrays:
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
        raise ParamsFormatError(f"{path} is no readable zip file: {error}.") from None
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
    """A file of which no large piece is read at once: `zipfile` believes its directory. All else is read by pieces."""

    def __init__(self, file: BinaryIO, size: int):
        self._file = file
        self._limit = min(size, _MAX_DIRECTORY)
        self.seek, self.tell, self.close, self.seekable = file.seek, file.tell, file.close, file.seekable

    def read(self, size: int = -1) -> bytes:
        """As `file.read`. Raises ParamsFormatError."""
        if size > self._limit:
            raise ParamsFormatError(f"{self._file.name} claims a part of {size} bytes, more than {self._limit}.")
        return self._file.read(size)


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, what: str) -> memoryview:
    """What is in a member, by pieces: neither its size nor what it unpacks to is believed. Raises ParamsFormatError."""
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


def _check_members(members: Sequence[zipfile.ZipInfo], path: Path, size: int) -> None:
    """Refuse archives that grow when they are unpacked. Raises ParamsFormatError."""
    if len(members) > MAX_MEMBERS:
        raise ParamsFormatError(f"{path} has {len(members)} members, expected at most {MAX_MEMBERS}.")
    claimed, end = 0, 0
    for member in sorted(members, key=lambda member: member.header_offset):
        what = f"{path}, member {member.filename[:200]!r}"
        if not member.filename.endswith(".npy"):
            raise ParamsFormatError(f"{what} is no .npy array.")
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
