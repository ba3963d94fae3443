"""`mx.nd.save` and `mx.nd.load`: MXNet's array files, by the project's one reader and writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lowering.mx.context import current_context
from lowering.mx.ndarray.array import NDArray, NotAnArrayError
from lowering.mx.ndarray.creation import stored_array
from lowering.mx.ndarray.sparse_arrays import BaseSparseNDArray, of_parts
from lowering.mx.util import is_np_shape
from symjax_nnvm.errors import ParamsFormatError
from symjax_nnvm.io.files import atomic_write, path_text
from symjax_nnvm.io.formats import format_of_name
from symjax_nnvm.mxnet.array_file import write_list
from symjax_nnvm.mxnet.array_formats import MXNET
from symjax_nnvm.mxnet.params_files import load_arrays, named_arrays, save_arrays
from symjax_nnvm.mxnet.sparse import SparseArray


def save(fname: str, data: NDArray | Mapping[str, NDArray] | Sequence[NDArray]) -> None:
    """Write arrays, by name or as a list, as MXNet 1.9.1's `nd.save` writes them, under `np_shape` too. Raises
    ParamsFormatError, NotAnArrayError, a TypeError, for other arrays, OSError."""
    path_text(fname, "fname")
    arrays = [data] if isinstance(data, NDArray) else data
    values = arrays.values() if isinstance(arrays, Mapping) else arrays if isinstance(arrays, list | tuple) else ()
    for value in values:
        if not isinstance(value, NDArray):
            problem = "save only accept dict str->NDArray or list of NDArray"
            raise NotAnArrayError(problem, got=type(value).__name__, fix="mx.nd.array(value) makes one.")
    if isinstance(arrays, Mapping):
        _write(fname, {name: _in_file(value) for name, value in arrays.items()})
    elif isinstance(arrays, list | tuple):
        _write(fname, [_in_file(value) for value in arrays])
    else:
        raise ParamsFormatError("data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays.")


def _in_file(array: NDArray) -> Any:
    """Return what an array file holds of an array."""
    return array.parts() if isinstance(array, BaseSparseNDArray) else np.asarray(array)


def _write(fname: str, arrays: dict[str, Any] | list[Any]) -> None:
    row = format_of_name(fname) or MXNET
    if row is MXNET or row.write is None:  # MXNet writes its format under every name
        with atomic_write(fname) as file:
            write_list(file, arrays, numpy_shapes=is_np_shape())
    else:
        save_arrays(fname, arrays)


def load_named(fname: str, whose: str) -> dict[str, NDArray]:
    """The arrays of a file by name. Raises ParamsFormatError, also for arrays without names, OSError."""
    path_text(fname, "fname")
    return {name: as_ndarray(value) for name, value in named_arrays(fname, whose).items()}


def load(fname: str) -> dict[str, NDArray] | list[NDArray]:
    """The arrays of a file, by name or as a list; sparse ones are dense inside. Raises ParamsFormatError, OSError."""
    path_text(fname, "fname")
    arrays = load_arrays(fname)
    if isinstance(arrays, dict):
        return {name: as_ndarray(value) for name, value in arrays.items()}
    return [as_ndarray(value) for value in arrays]


def as_ndarray(value: Any) -> NDArray:
    """An NDArray of an array of a file, or of any other, in its dtype."""
    if isinstance(value, NDArray):
        return value
    if isinstance(value, SparseArray):
        return of_parts(value)
    return stored_array(np.asarray(value), current_context())
