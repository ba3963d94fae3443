"""safetensors files: arrays by name, and in the metadata which of them are auxiliary states."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, BinaryIO

import numpy as np

from symjax_nnvm.errors import FileError, ParamsFormatError
from symjax_nnvm.io.files import map_file
from symjax_nnvm.ir.types import shape_problem
from symjax_nnvm.mxnet.array_file import little_endian
from symjax_nnvm.mxnet.array_names import ARG, AUX, kind_of, split_kinds
from symjax_nnvm.mxnet.bfloat16 import bfloat16
from symjax_nnvm.mxnet.sparse import SparseArray

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
    """Return whether a file of a size that begins like this is a safetensors file: a JSON header after its length."""
    return len(head) >= 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size - 8


def write_safetensors(file: BinaryIO, arrays: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write arrays by name to an open file, dtypes kept, bfloat16 too; sparse arrays are made dense. Names that all
    begin with `arg:` or `aux:` lose the prefix, and the metadata lists the states: other readers of the file find the
    network's names.

    Array by array, the widest dtypes first, so that all begin at multiples of their size. The library's
    `safetensors.numpy.save` would make saving need the extra, and holds the file in memory twice before anything is
    written (512 MiB of arrays: 1042 MiB more, and 17 MiB here).
    Raises ParamsFormatError. Source of the format: the README of safetensors.
    """
    if not isinstance(arrays, Mapping):
        raise ParamsFormatError("A safetensors file holds arrays by name: save a dict, or save the list as .params.")
    typed = all(isinstance(name, str) and kind_of(name) for name in arrays)
    args, aux = split_kinds(arrays) if typed else (arrays, {})
    both = sorted(args.keys() & aux.keys())
    if both:
        raise ParamsFormatError(
            f"{both} are both arguments and auxiliary states, but a file has only one array for a name."
        )
    arrays = {n: a if isinstance(a, SparseArray) else np.asarray(a) for n, a in (*args.items(), *aux.items())}
    for name, array in arrays.items():
        if array.dtype.name not in _CODES:
            raise ParamsFormatError(f"{name!r} has dtype {array.dtype.name}, which safetensors files do not hold.")
        if not isinstance(name, str) or name == _METADATA:
            raise ParamsFormatError(f"An array cannot be named {name!r}: safetensors files reserve this name.")
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {_METADATA: {_AUX: json.dumps(list(aux))}} if typed else {}
    at = 0
    for name in names:
        array = arrays[name]
        end = at + prod(array.shape) * array.dtype.itemsize
        header[name] = {"dtype": _CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": [at, end]}
        at = end
    try:
        text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        raise ParamsFormatError(f"A safetensors file cannot hold this name: {error}.") from None
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name in names:
        value = arrays[name]
        dense = little_endian(value.todense() if isinstance(value, SparseArray) else value)
        file.write(dense.reshape(-1).view(np.uint8).data)


def read_safetensors(file: BinaryIO) -> Params:
    """Return the arrays of an open file, views of the mapped one, under `arg:` and `aux:` where its metadata lists the
    states, else under the file's names.

    Raises ModuleNotFoundError without the library, ParamsFormatError for a malformed file, FileError.
    """
    import safetensors
    import safetensors.numpy

    path = file.name
    length = int.from_bytes(file.read(8), "little")
    try:
        # The library checks the header: lengths, dtypes, and that the arrays fill the file one after the other.
        with safetensors.safe_open(path, "np") as checked:
            metadata = checked.metadata() or {}
            parts = [(name, checked.get_slice(name)) for name in checked.offset_keys()]
            headers = [(name, part.get_dtype(), tuple(part.get_shape())) for name, part in parts]
    except MemoryError as error:  # the library maps the file
        raise FileError(f"{path} cannot be mapped into memory: {error}.") from None
    except safetensors.SafetensorError as error:
        raise ParamsFormatError(f"{path} is not a readable safetensors file: {error}.") from None
    data = map_file(file)
    arrays: Params = {}
    at = 8 + length
    for name, code, shape in headers:
        dtype = _dtype(code, f"{path}, array {name!r}")
        if (problem := shape_problem(shape, dtype.itemsize)) is not None:
            raise ParamsFormatError(f"{path}, array {name[:200]!r}: {problem}.")
        arrays[name] = np.ndarray(shape, dtype, data, at)
        at += arrays[name].nbytes
    if _AUX not in metadata:
        return arrays
    states = set(_states(metadata, path))
    return {f"{AUX if name in states else ARG}{name}": array for name, array in arrays.items()}


def _states(metadata: Mapping[str, str], path: str) -> list[str]:
    try:
        states = json.loads(metadata[_AUX])
    except (ValueError, RecursionError):
        states = None
    if not isinstance(states, list) or not all(isinstance(name, str) for name in states):
        raise ParamsFormatError(f"{path}: the metadata's {_AUX!r} is not a list of names.")
    return states


def _dtype(code: str, what: str) -> np.dtype:
    if code == "BF16":
        return bfloat16()
    if code not in _DTYPES:
        raise ParamsFormatError(f"{what} has dtype {code}, expected BF16 or one of {', '.join(_DTYPES)}.")
    return np.dtype(_DTYPES[code])
