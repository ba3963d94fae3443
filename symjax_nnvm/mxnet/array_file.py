"""MXNet's array files (`.params`): every record version, dense and sparse, read without copying.

A file is mapped into memory and only its headers are read: an array is a view of the file, and its bytes are fetched
when they are used. Every count, length and dimension is checked against the rest of the file before anything is
allocated. Source of the format: MXNet's `ndarray.cc`, all generations.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, BinaryIO

import numpy as np

from symjax_nnvm.errors import ParamsFormatError
from symjax_nnvm.io.files import map_file
from symjax_nnvm.ir.types import DTYPE_CODES, MAX_SIZE, dtype_from_code
from symjax_nnvm.mxnet.bfloat16 import bfloat16
from symjax_nnvm.mxnet.booleans import booleans
from symjax_nnvm.mxnet.sparse import CSRArray, RowSparseArray, SparseArray

Array = np.ndarray | SparseArray
Arrays = dict[str, Array] | list[Array]

LIST_MAGIC = 0x112
V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
DENSE, ROW_SPARSE, CSR = 0, 1, 2
MAX_DIMS = 32
MAX_NAME = 4096
_MAX_ELEMENTS = (1 << 63) // 16  # whose bytes NumPy can count
_CPU = (1, 0)


class _Reader:
    """A cursor over a file's bytes; an error has the position."""

    def __init__(self, data: memoryview, source: str):
        self.data = data
        self.at = 0
        self._source = source

    @property
    def remaining(self) -> int:
        """Return the number of bytes after the cursor."""
        return len(self.data) - self.at

    def fail(self, problem: str) -> ParamsFormatError:
        """Return the error for a problem at the cursor."""
        return ParamsFormatError(f"{self._source}: {problem}, at byte {self.at} of {len(self.data)}.")

    def take(self, size: int, what: str) -> memoryview:
        """Return the next bytes. Raises ParamsFormatError when there are fewer."""
        if size > self.remaining:
            raise self.fail(f"the file is truncated: {what} takes {size} bytes, {self.remaining} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def numbers(self, form: str, what: str) -> tuple[Any, ...]:
        """Return the next little-endian numbers, in struct's letters."""
        form = f"<{form}"
        return struct.unpack(form, self.take(struct.calcsize(form), what))

    def number(self, form: str, what: str) -> int:
        """Read the next number."""
        return self.numbers(form, what)[0]

    def dims(self, count: int, letter: str, what: str) -> tuple[int, ...]:
        """Return the next `count` dimensions, none negative."""
        self.check_rank(count, what)
        dims = self.numbers(f"{count}{letter}", what) if count else ()
        self.check_shape(dims, what)
        return dims

    def check_rank(self, rank: int, what: str) -> None:
        """Refuse a number of dimensions that no array has."""
        if not 0 <= rank <= MAX_DIMS:
            raise self.fail(f"{what} has {rank} dimensions, expected 0 to {MAX_DIMS}")

    def check_shape(self, shape: tuple[int, ...], what: str) -> None:
        """Refuse a shape that no array has."""
        if (problem := _problem(shape)) is not None:
            raise self.fail(f"{what} {problem}")

    def dtype(self, what: str) -> np.dtype:
        """Return the next dtype number as a NumPy dtype, little-endian."""
        code = self.number("i", what)
        if code not in DTYPE_CODES.values():
            raise self.fail(f"{what} is {code}, expected one of {sorted(DTYPE_CODES.values())}")
        return _dtype(code)

    def array(self, shape: tuple[int, ...], dtype: np.dtype, what: str) -> np.ndarray:
        """Return a view of the next elements."""
        start = self.at
        self.take(prod(shape) * dtype.itemsize, what)
        if dtype == np.bool_:
            return booleans(np.ndarray(shape, np.uint8, self.data, start))
        return np.ndarray(shape, dtype, self.data, start)


def _problem(shape: tuple[int, ...]) -> str | None:
    """Why no array in a file has a shape: full ones the file's size bounds, empty ones nothing else does."""
    if len(shape) > MAX_DIMS:
        return f"has {len(shape)} dimensions, expected 0 to {MAX_DIMS}"
    if any(dim < 0 for dim in shape):
        return f"is {shape}, expected no negative dimension"
    if any(dim > MAX_SIZE for dim in shape):  # of sparse arrays, from .npy files of uint64
        return f"is {shape}, expected no dimension past {MAX_SIZE}"
    if 0 in shape and prod(dim or 1 for dim in shape) > _MAX_ELEMENTS:
        return f"is {shape}, expected at most {_MAX_ELEMENTS} elements beside the 0"
    return None


@cache
def _dtype(code: int) -> np.dtype:
    name = dtype_from_code(code)
    return bfloat16() if name == "bfloat16" else np.dtype(name).newbyteorder("<")


def is_list_file(head: bytes, size: int) -> bool:
    """Return whether a file that begins like this is one of MXNet's array files."""
    return len(head) >= 8 and struct.unpack("<Q", head[:8])[0] == LIST_MAGIC


def read_list_file(file: BinaryIO) -> Arrays:
    """Return the arrays of an open file, which is mapped. Headers are far apart: the system should not read ahead of
    them, only of arrays. Raises ParamsFormatError, FileError."""
    data = map_file(file)
    if hasattr(mmap, "MADV_RANDOM"):
        data.madvise(mmap.MADV_RANDOM)
    arrays = read_list(data, file.name)
    if hasattr(mmap, "MADV_RANDOM"):
        data.madvise(mmap.MADV_NORMAL)
    return arrays


def read_list(data: Any, source: str = "array file") -> Arrays:
    """Return the arrays of a file's bytes: a dict when they have names, else a list. The last of a name counts.

    data: anything with the buffer protocol; dense arrays are views of it. Raises ParamsFormatError.
    """
    reader = _Reader(memoryview(data).cast("B"), source)
    if reader.number("Q", "the file's magic number") != LIST_MAGIC:
        raise reader.fail("this is not an array file of MXNet: its first 8 bytes are not 0x112")
    reader.number("Q", "the reserved number")
    count = reader.number("Q", "the number of arrays")
    if count > reader.remaining // 4:
        raise reader.fail(f"the file claims {count} arrays, more than fit into it")
    arrays = [_read_record(reader, f"array {i}") for i in range(count)]
    names = list(_read_names(reader, count))
    if names:
        # An array that was never initialised is not an array.
        return {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    return [array for array in arrays if array is not None]


def read_record(data: bytes, source: str = "array") -> Array:
    """Return the one array that these bytes are, as MXNet pickles it. Raises ParamsFormatError."""
    reader = _Reader(memoryview(data), source)
    array = _read_record(reader, "the array")
    if array is None:
        raise reader.fail("the array was never initialised")
    return array


def _read_names(reader: _Reader, count: int) -> Iterator[str]:
    named = reader.number("Q", "the number of names")
    if named not in (0, count):
        raise reader.fail(f"the file has {named} names for {count} arrays, expected 0 or {count}")
    for i in range(named):
        length = reader.number("Q", f"the length of name {i}")
        if length > MAX_NAME:
            raise reader.fail(f"name {i} is {length} bytes long, expected at most {MAX_NAME}")
        raw = bytes(reader.take(length, f"name {i}"))
        try:
            name = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise reader.fail(f"name {i} is not UTF-8: {raw[:40]!r}") from None
        if "\0" in name:
            raise reader.fail(f"name {i} holds a NUL character: {name[:40]!r}")
        yield name


def _read_record(reader: _Reader, what: str) -> Array | None:
    """Read one array; None for one that was never initialised."""
    magic = reader.number("I", what)
    if magic == V1:
        shape = reader.dims(reader.number("i", f"the rank of {what}"), "q", f"the shape of {what}")
        return _read_dense(reader, shape, what) if shape else None
    if magic in (V2, V3):
        return _read_typed(reader, what, numpy_shapes=magic == V3)
    # Before 0.11 there was no magic number: these are the dimensions.
    shape = reader.dims(magic, "I", f"the shape of {what}")
    return _read_dense(reader, shape, what) if shape else None


def _read_dense(reader: _Reader, shape: tuple[int, ...], what: str) -> np.ndarray:
    reader.numbers("ii", f"the context of {what}")
    return reader.array(shape, reader.dtype(f"the dtype of {what}"), f"the data of {what}")


def _read_typed(reader: _Reader, what: str, *, numpy_shapes: bool) -> Array | None:
    storage = reader.number("i", f"the storage type of {what}")
    if storage not in (DENSE, ROW_SPARSE, CSR):
        raise reader.fail(f"the storage type of {what} is {storage}, expected 0 (dense), 1 (row_sparse) or 2 (csr)")
    stored: tuple[int, ...] = ()
    if storage != DENSE:
        stored = reader.dims(reader.number("i", f"the rank of {what}"), "q", f"the storage shape of {what}")
    rank = reader.number("i", f"the rank of {what}")
    if numpy_shapes:
        if rank == -1:
            return None
        reader.check_rank(rank, f"the shape of {what}")
        shape = reader.numbers(f"{rank}q", f"the shape of {what}") if rank else ()
        if -1 in shape:
            return None
        reader.check_shape(shape, f"the shape of {what}")
    else:
        shape = reader.dims(rank, "q", f"the shape of {what}")
        if not shape:
            return None
    if storage == DENSE:
        return _read_dense(reader, shape, what)
    return _read_sparse(reader, storage, stored, shape, what)


def _read_sparse(
    reader: _Reader, storage: int, stored: tuple[int, ...], shape: tuple[int, ...], what: str
) -> SparseArray:
    reader.numbers("ii", f"the context of {what}")
    dtype = reader.dtype(f"the dtype of {what}")
    headers = []
    for part in ("indices",) if storage == ROW_SPARSE else ("indptr", "indices"):
        aux_dtype = reader.dtype(f"the dtype of the {part} of {what}")
        if aux_dtype.kind != "i":
            raise reader.fail(f"the {part} of {what} are {aux_dtype}, expected integers")
        aux_shape = reader.dims(reader.number("i", f"the rank of the {part} of {what}"), "q", f"the {part} of {what}")
        headers.append((part, aux_shape, aux_dtype))
    if stored[:1] == (0,):
        # MXNet writes this shape before it has waited for the array, and reads as many rows as there are indices.
        stored = headers[-1][1][:1] + stored[1:]
    data = reader.array(stored, dtype, f"the data of {what}")
    parts = {part: reader.array(dims, aux_dtype, f"the {part} of {what}") for part, dims, aux_dtype in headers}
    try:
        return (RowSparseArray if storage == ROW_SPARSE else CSRArray)(shape, data, **parts)
    except ValueError as error:
        raise reader.fail(f"{what}: {error}") from None


# -- writing ---------------------------------------------------------------------------------------------------------


def write_list(file: BinaryIO, arrays: Mapping[str, Any] | Sequence[Any], *, numpy_shapes: bool = False) -> None:
    """Write arrays as MXNet 1.9.1 does, byte for byte: version 2 records, dtypes kept, a scalar as (1,).

    numpy_shapes: as it does under `np_shape`: version 3 records, a scalar as `()`.
    Raises ParamsFormatError for what MXNet's files cannot hold: dtypes that 1.x refuses, names with NUL characters,
    more than 32 dimensions, and for what could not be read again.
    """
    named = isinstance(arrays, Mapping)
    names = [_encoded(name) for name in arrays] if named else []
    values = list(arrays.values()) if named else list(arrays)
    labels = [repr(name) for name in arrays] if named else [f"array {i}" for i in range(len(values))]
    headers = [_header(value, what, numpy_shapes) for value, what in zip(values, labels, strict=True)]
    file.write(struct.pack("<QQQ", LIST_MAGIC, 0, len(values)))
    for header, parts in headers:
        file.write(header)
        for part in parts:
            file.write(part.reshape(-1).view(np.uint8).data)
    file.write(struct.pack("<Q", len(names)))
    for name in names:
        file.write(struct.pack("<Q", len(name)) + name)


def _encoded(name: object) -> bytes:
    if not isinstance(name, str) or "\0" in name or len(name.encode()) > MAX_NAME:
        raise ParamsFormatError(
            f"A name in an array file is text of at most {MAX_NAME} bytes without NUL, not {name!r}."
        )
    return name.encode()


_SAVED = {name: code for name, code in DTYPE_CODES.items() if not 8 <= code <= 11}


def _header(value: Any, what: str, numpy_shapes: bool) -> tuple[bytes, list[np.ndarray]]:
    """Return a record's header, and the arrays whose bytes follow it."""
    version = V3 if numpy_shapes else V2
    if isinstance(value, SparseArray):
        auxiliary = [value.indices] if isinstance(value, RowSparseArray) else [value.indptr, value.indices]  # type: ignore[attr-defined]
        storage = ROW_SPARSE if isinstance(value, RowSparseArray) else CSR
        data = _stored(value.data, what)
        header = struct.pack("<Ii", V2, storage) + _shape(data.shape, what) + _shape(value.shape, what)
    else:
        auxiliary, data = [], _stored(value, what)
        shape = data.shape if numpy_shapes else data.shape or (1,)
        header = struct.pack("<Ii", version, DENSE) + _shape(shape, what)
    header += struct.pack("<iii", *_CPU, _SAVED[data.dtype.name])
    auxiliary = [_stored(part, what) for part in auxiliary]
    for part in auxiliary:
        header += struct.pack("<i", _SAVED[part.dtype.name]) + _shape(part.shape, what)
    return header, [little_endian(part) for part in (data, *auxiliary)]


def _shape(shape: tuple[int, ...], what: str) -> bytes:
    if (problem := _problem(shape)) is not None:
        raise ParamsFormatError(f"The shape of {what} {problem}.")
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)


def _stored(value: Any, what: str) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.name not in _SAVED:
        raise ParamsFormatError(
            f"{what} has dtype {array.dtype.name}, which MXNet 1.x cannot load; it loads {', '.join(_SAVED)}."
        )
    return array


def little_endian(array: np.ndarray) -> np.ndarray:
    """Return an array to be written: C-contiguous and little-endian, as bytes: bfloat16 has no buffer protocol."""
    array = np.ascontiguousarray(array)
    if array.dtype.name == "bfloat16":
        return array.view(np.uint16)
    return array.astype(array.dtype.newbyteorder("<"), copy=False)
