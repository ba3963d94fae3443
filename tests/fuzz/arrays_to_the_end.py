"""What may happen to an array file once it is there: read, looked at, made dense, compared with a symbol, saved again.

`arrays_to_the_end` holds to the contract of `targets`, with OSError beside NNVMError, and returns how far it came.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.mxnet.params import named_arrays
from symjax_nnvm.mxnet.sparse import SparseArray
from tests.fuzz.targets import check_message

__all__ = ["ARRAY_STAGES", "arrays_to_the_end"]

ARRAY_STAGES = ("refused", "loaded", "read", "saved")
"""How far an array file came."""

_SMALL = 1 << 22
_FOLDER = tempfile.TemporaryDirectory(prefix="symjax-nnvm-fuzz-")
_NETWORK = sym.FullyConnected(sym.Variable("data", shape=(2, 3)), sym.Variable("p0"), sym.Variable("p1"), num_hidden=2)


def arrays_to_the_end(data: bytes) -> str:
    """Load a file as each loader would, and use what it gives; the name of the last stage reached."""
    folder = Path(_FOLDER.name)
    path, symbol_path = folder / "input.params", folder / "net-symbol.json"
    path.unlink(missing_ok=True)  # a new file each time: arrays are views of the old one
    path.write_bytes(data)
    if not symbol_path.exists():
        symbol_path.write_text(_NETWORK.tojson())
    reached = "refused"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for loader in (lambda: nn.load_arrays(path), lambda: nn.load_safetensors(path)[0], lambda: named_arrays(path)):
            try:
                arrays = loader()
            except (NNVMError, OSError) as error:
                _check(error)
                continue
            reached = _use(arrays, folder)
        for use in (lambda: nn.check(_NETWORK, params=path), lambda: nn.load_model(symbol_path, path)):
            try:
                use()
            except (NNVMError, OSError) as error:
                _check(error)
    return reached


def _check(error: Exception) -> None:
    if isinstance(error, NNVMError):
        check_message(error)


def _use(arrays: Any, folder: Path) -> str:
    """Read values, make sparse arrays dense that are small, save and load again."""
    values = list(arrays.values()) if isinstance(arrays, Mapping) else list(arrays)
    for array in values:
        np.asarray(array.data if isinstance(array, SparseArray) else array).reshape(-1)[:16].tolist()
    dense = [_dense(array) for array in values]
    if (
        any(array is None for array in dense)
        or sum(array.nbytes for array in values if hasattr(array, "nbytes")) > _SMALL
    ):
        return "loaded"
    target = folder / "again.params"
    target.unlink(missing_ok=True)
    try:
        nn.save_arrays(target, arrays)
    except NNVMError as error:
        check_message(error)
        return "read"
    again = nn.load_arrays(target)
    assert len(again) == len(arrays), "saving and loading lost arrays"
    return "saved"


def _dense(array: Any) -> np.ndarray | None:
    """The array with its zeros where that is small; None where it is not, and where an error says so."""
    if not isinstance(array, SparseArray):
        return array
    if math.prod(array.shape) * array.dtype.itemsize > _SMALL:
        return None
    try:
        return array.todense()
    except NNVMError as error:
        check_message(error)
        return None
