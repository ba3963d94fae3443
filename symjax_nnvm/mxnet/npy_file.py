"""NumPy's array files (`.npy`), which MXNet 2.0 keeps in zip files: read without evaluating anything.

NumPy's own reader evaluates the header as Python and believes its shape; here the header is matched, its dtype is one
of MXNet's, and the data must have the length that the header declares before anything is made of them.
Source of the format: NumPy's NEP 1, versions 1 to 3.
"""

from __future__ import annotations

import mmap
import re
import struct
from typing import BinaryIO

import numpy as np

from symjax_nnvm.errors import ParamsFormatError
from symjax_nnvm.io.files import map_file
from symjax_nnvm.ir.types import DTYPE_CODES, MAX_RANK, shape_problem
from symjax_nnvm.mxnet.bfloat16 import bfloat16
from symjax_nnvm.mxnet.booleans import booleans

Bytes = bytes | memoryview | mmap.mmap

_MAGIC = b"\x93NUMPY"
_MAX_HEADER = 1 << 16
_ITEM = re.compile(
    r"""\s*['"](?:descr['"]\s*:\s*['"](?P<descr>[<>|=]?[a-z?]\d{0,2})['"]"""
    r"""|fortran_order['"]\s*:\s*(?P<fortran_order>True|False)"""
    r"""|shape['"]\s*:\s*\((?P<shape>[\dL,\s]{0,2000})\))\s*(?:,|$)"""
)
"""One entry and the comma after it. Blanks are followed by what is not a blank, so that matching is linear."""
_DIM = re.compile(r"\d{1,19}L?")


def is_npy(head: bytes, size: int) -> bool:
    """Return whether a file that begins like this is a `.npy` file."""
    return head.startswith(_MAGIC)


def read_npy_file(file: BinaryIO) -> list[np.ndarray]:
    """Return the array of an open file, which is mapped. Raises ParamsFormatError, FileError."""
    return [read_npy(map_file(file), file.name)]


def read_npy(data: Bytes, what: str) -> np.ndarray:
    """Return the array of a `.npy` file's bytes, a view of them but for booleans. Raises ParamsFormatError."""
    header, start = _header(data, what)
    dtype, shape, fortran_order = _parse(header, what)
    size = np.dtype(dtype).itemsize * int(np.prod(shape, dtype=object))
    if size != len(data) - start:
        raise ParamsFormatError(
            f"{what} is not a .npy array: {dtype.name} of shape {shape} takes {size} bytes, but it has "
            f"{len(data) - start}."
        )
    array = np.ndarray(shape, dtype, data, start, order="F" if fortran_order else "C")
    return booleans(array.view(np.uint8)) if dtype == np.bool_ else array


def _header(data: Bytes, what: str) -> tuple[str, int]:
    """Return the header's text, and where the data begin."""
    version = data[len(_MAGIC)] if len(data) > 12 else 0
    if data[: len(_MAGIC)] != _MAGIC or version not in (1, 2, 3):
        raise ParamsFormatError(f"{what} is not a .npy array: it begins with {bytes(data[:8])!r}.")
    form = "<H" if version == 1 else "<I"
    start = len(_MAGIC) + 2 + struct.calcsize(form)
    (length,) = struct.unpack_from(form, data, len(_MAGIC) + 2)
    if length > min(_MAX_HEADER, len(data) - start):
        raise ParamsFormatError(f"{what} is not a .npy array: its header is {length} bytes long.")
    return bytes(data[start : start + length]).decode("latin-1"), start + length


def _parse(header: str, what: str) -> tuple[np.dtype, tuple[int, ...], bool]:
    """Return dtype, shape, whether the first axis is the fastest."""

    def refuse(problem: str) -> ParamsFormatError:
        return ParamsFormatError(f"{what} is not a readable .npy array: {problem} in {header.strip()[:200]!r}.")

    fields: dict[str, str] = {}
    text = header.strip()
    braced = len(text) >= 2 and text[0] == "{" and text[-1] == "}"
    items, at = text[1:-1].rstrip() if braced else "", 0
    while at < len(items) and (item := _ITEM.match(items, at)):
        fields |= {key: value for key, value in item.groupdict().items() if value is not None}
        at = item.end()
    if at != len(items) or len(fields) != 3:
        raise refuse("expected descr, fortran_order and shape")
    dims = [dim.strip() for dim in fields["shape"].split(",")]
    if not dims[-1]:
        dims.pop()
    if len(dims) > MAX_RANK or not all(_DIM.fullmatch(dim) for dim in dims):
        raise refuse("wrong shape")
    shape = tuple(int(dim.rstrip("L")) for dim in dims)
    try:
        # MXNet 2.0's spelling of bfloat16, which NumPy lacks.
        dtype = bfloat16() if fields["descr"] == "<b2" else np.dtype(fields["descr"])
    except TypeError:
        raise refuse("unknown dtype") from None
    if dtype.name not in DTYPE_CODES:
        raise refuse(f"dtype {dtype.name}, which MXNet does not have,")
    if (problem := shape_problem(shape, dtype.itemsize)) is not None:
        raise refuse(problem)
    return dtype, shape, fields["fortran_order"] == "True"
