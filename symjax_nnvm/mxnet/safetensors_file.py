"""safetensors in (extra `safetensors`) and out: arguments by name, and in the metadata which of them are states."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from symjax_nnvm.errors import MissingExtraError, ParamsFormatError
from symjax_nnvm.files import atomic_write, map_file, open_regular
from symjax_nnvm.ir.types import shape_problem
from symjax_nnvm.mxnet.array_file import little_endian
from symjax_nnvm.mxnet.bfloat16 import bfloat16
from symjax_nnvm.mxnet.sparse import SparseArray

__all__ = ["is_safetensors", "load_safetensors", "save_safetensors", "write_safetensors"]

Params = dict[str, Any]

_METADATA = "__metadata__"
_AUX = "aux"
"""The metadata's key: a JSON list of the names that are auxiliary states."""

_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}
_CODES = {np.dtype(form).name: code for code, form in _DTYPES.items()} | {"bfloat16": "BF16"}


def is_safetensors(head: bytes, size: int) -> bool:
    """Whether a file of a size that begins like this is a safetensors file: a JSON header after its length."""
    return len(head) >= 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size - 8


def save_safetensors(path: str | os.PathLike[str], args: Mapping[str, Any], aux: Mapping[str, Any]) -> None:
    """Write arguments and auxiliary states by their names, dtypes kept, bfloat16 too; sparse arrays are made dense.

    A file of that name is replaced whole, also while arrays are views of it. Raises ParamsFormatError for a name in
    both and dtypes and names it does not hold, FileError, OSError.
    """
    with atomic_write(path) as file:
        write_safetensors(file, args, aux)


def write_safetensors(file: BinaryIO, args: Mapping[str, Any], aux: Mapping[str, Any]) -> None:
    """Write to an open file, array by array, the widest dtypes first, so that all lie at multiples of their size.

    Raises ParamsFormatError. Source of the format: the README of the library safetensors.
    """
    both = sorted(args.keys() & aux.keys())
    if both:
        raise ParamsFormatError(f"{both} are arguments and auxiliary states at once; a file has one array of a name.")
    arrays = {n: a if isinstance(a, SparseArray) else np.asarray(a) for n, a in (*args.items(), *aux.items())}
    for name, array in arrays.items():
        if array.dtype.name not in _CODES:
            raise ParamsFormatError(f"{name!r} has dtype {array.dtype.name}, which safetensors files do not hold.")
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {_METADATA: {_AUX: json.dumps(list(aux))}}
    at = 0
    for name in names:
        array = arrays[name]
        if name == _METADATA:
            raise ParamsFormatError(f"An array cannot be named {name!r}: safetensors files keep other things there.")
        end = at + prod(array.shape) * array.dtype.itemsize
        header[name] = {"dtype": _CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": [at, end]}
        at = end
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise ParamsFormatError(f"A name is no text that a safetensors file can hold: {error}.") from None
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name in names:
        value = arrays[name]
        dense = little_endian(value.todense() if isinstance(value, SparseArray) else value)
        file.write(dense.reshape(-1).view(np.uint8).data)


def load_safetensors(path: str | os.PathLike[str]) -> tuple[Params, Params]:
    """(arguments, auxiliary states) of a safetensors file; all are arguments where its metadata names no states.

    Arrays are views of the mapped file: nothing is read before it is used. While they live the file may be replaced or
    removed, as saving under its name does, but not changed in its place.
    Raises MissingExtraError without safetensors, ParamsFormatError for a malformed file, FileError, OSError.
    """
    library = _library()
    path = Path(path)
    with open_regular(path) as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            # The library checks the header: lengths, dtypes, and that the arrays fill the file one after the other.
            with library.safe_open(os.fspath(path), "np") as checked:
                metadata = checked.metadata() or {}
                parts = [(name, checked.get_slice(name)) for name in checked.offset_keys()]
                headers = [(name, part.get_dtype(), tuple(part.get_shape())) for name, part in parts]
        except library.SafetensorError as error:
            raise ParamsFormatError(f"{path} is no readable safetensors file: {error}.") from None
        data = map_file(file)
    arrays: Params = {}
    at = 8 + length
    for name, code, shape in headers:
        dtype = _dtype(code, f"{path}, array {name!r}")
        if (problem := shape_problem(shape, dtype.itemsize)) is not None:
            raise ParamsFormatError(f"{path}, array {name[:200]!r}: {problem}.")
        arrays[name] = np.ndarray(shape, dtype, data, at)
        at += arrays[name].nbytes
    states = set(_states(metadata, path))
    return ({n: a for n, a in arrays.items() if n not in states}, {n: a for n, a in arrays.items() if n in states})


def _states(metadata: Mapping[str, str], path: Path) -> list[str]:
    try:
        states = json.loads(metadata.get(_AUX, "[]"))
    except (ValueError, RecursionError):
        states = None
    if not isinstance(states, list) or not all(isinstance(name, str) for name in states):
        raise ParamsFormatError(f"{path}: the metadata's {_AUX!r} is no list of names.")
    return states


def _dtype(code: str, what: str) -> np.dtype:
    if code == "BF16":
        return bfloat16()
    if code not in _DTYPES:
        raise ParamsFormatError(f"{what} has dtype {code}, expected BF16 or one of {', '.join(_DTYPES)}.")
    return np.dtype(_DTYPES[code])


def _library() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise MissingExtraError(
            "Reading safetensors files needs the library of that name. Install it with: "
            "pip install 'symjax-nnvm[safetensors]'"
        ) from error
    return safetensors
