"""safetensors in and out (extra `safetensors`): arguments by name, and in the metadata which of them are states."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from symjax_nnvm.errors import MissingExtraError, ParamsFormatError
from symjax_nnvm.ir.types import shape_problem
from symjax_nnvm.mxnet.bfloat16 import bfloat16
from symjax_nnvm.mxnet.sparse import SparseArray

__all__ = ["is_safetensors", "load_safetensors", "save_safetensors"]

Params = dict[str, Any]

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


def is_safetensors(head: bytes, size: int) -> bool:
    """Whether a file of a size that begins like this is a safetensors file: a JSON header after its length."""
    return len(head) >= 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= size - 8


def save_safetensors(path: str | os.PathLike[str], args: Mapping[str, Any], aux: Mapping[str, Any]) -> None:
    """Write arguments and auxiliary states by their names, dtypes kept, bfloat16 too; sparse arrays are made dense.

    Raises MissingExtraError without safetensors, ParamsFormatError for a name in both and dtypes it does not hold,
    OSError.
    """
    library = _library()
    both = sorted(args.keys() & aux.keys())
    if both:
        raise ParamsFormatError(f"{both} are arguments and auxiliary states at once; a file has one array of a name.")
    arrays = {name: _dense(value) for name, value in (*args.items(), *aux.items())}
    metadata = {_AUX: json.dumps(list(aux))}
    for name, array in arrays.items():
        if array.dtype.name not in {"bfloat16", *(np.dtype(dtype).name for dtype in _DTYPES.values())}:
            raise ParamsFormatError(f"{name!r} has dtype {array.dtype.name}, which safetensors files do not hold.")
    try:
        library.numpy.save_file(arrays, os.fspath(path), metadata)
    except library.SafetensorError as error:
        raise ParamsFormatError(f"{path} cannot be written: {error}.") from None


def load_safetensors(path: str | os.PathLike[str]) -> tuple[Params, Params]:
    """(arguments, auxiliary states) of a safetensors file; all are arguments where its metadata names no states.

    Arrays are views of the mapped file: nothing is read before it is used, and the file must stay as it is while they
    live. Raises MissingExtraError without safetensors, ParamsFormatError for a malformed file, OSError.
    """
    library = _library()
    path = Path(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            # The library checks the header: lengths, dtypes, and that the arrays fill the file one after the other.
            with library.safe_open(os.fspath(path), "np") as checked:
                metadata = checked.metadata() or {}
                parts = [(name, checked.get_slice(name)) for name in checked.offset_keys()]
                headers = [(name, part.get_dtype(), tuple(part.get_shape())) for name, part in parts]
        except library.SafetensorError as error:
            raise ParamsFormatError(f"{path} is no readable safetensors file: {error}.") from None
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    arrays: Params = {}
    at = 8 + length
    for name, code, shape in headers:
        dtype = _dtype(code, f"{path}, array {name!r}")
        if (problem := shape_problem((*shape, dtype.itemsize))) is not None:
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


def _dense(value: Any) -> np.ndarray:
    return np.asarray(value.todense() if isinstance(value, SparseArray) else value, order="C")


def _library() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise MissingExtraError(
            "safetensors files need the library safetensors. Install it with: pip install 'symjax-nnvm[safetensors]'"
        ) from error
    return safetensors
