"""`mx.npx`: what arrays of `mx.np` need beyond NumPy: layers, devices, files, and the switches of the dialect."""

from __future__ import annotations

from typing import Any as _Any

from lowering.mx.context import Context as Context
from lowering.mx.context import cpu as cpu
from lowering.mx.context import cpu_pinned as cpu_pinned
from lowering.mx.context import current_context as current_context
from lowering.mx.context import gpu as gpu
from lowering.mx.context import gpu_memory_info as gpu_memory_info
from lowering.mx.context import num_gpus as num_gpus
from lowering.mx.ndarray import saved_arrays as _files
from lowering.mx.ndarray import waitall as waitall
from lowering.mx.ndarray.array import NUMPY as _NUMPY
from lowering.mx.ndarray.array import NDArray as _NDArray
from lowering.mx.ndarray.array import in_dialect as _in_dialect
from lowering.mx.numpy.operators import EAGER as _EAGER
from lowering.mx.numpy.operators import DialectValueError as _DialectValueError
from lowering.mx.numpy.operators import unsupported as _unsupported
from lowering.mx.numpy_extension import image as image
from lowering.mx.numpy_extension import random as random
from lowering.mx.numpy_extension.functions import extension as _extension
from lowering.mx.util import is_np_array as is_np_array
from lowering.mx.util import is_np_shape as is_np_shape
from lowering.mx.util import np_array as np_array
from lowering.mx.util import np_shape as np_shape
from lowering.mx.util import reset_np as reset_np
from lowering.mx.util import set_np as set_np
from lowering.mx.util import set_np_shape as set_np_shape
from lowering.mx.util import use_np as use_np
from lowering.mx.util import use_np_array as use_np_array
from lowering.mx.util import use_np_shape as use_np_shape

_operators = _extension("mx.npx", _EAGER)


def save(file: str, arr: _Any) -> None:
    """Write an array, a list of arrays or arrays by name, as `mx.nd.save` does. Raises SymbolTypeError, a TypeError,
    for arrays of mx.nd, DialectValueError, a ValueError, for what holds no arrays."""
    if not isinstance(arr, _NDArray | dict | list | tuple):
        problem = "data needs to either be a ndarray, dict of (str, ndarray) pairs or a list of ndarrays."
        raise _DialectValueError(problem, got=type(arr).__name__)
    arrays = arr.values() if isinstance(arr, dict) else [arr] if isinstance(arr, _NDArray) else arr
    for array in arrays:
        if not isinstance(array, _NDArray) or array.dialect != _NUMPY:
            raise _unsupported(array)
    with np_shape(True):
        _files.save(file, arr)


def load(file: str) -> _Any:
    """The arrays of a file, as arrays of `mx.np`."""
    loaded = _files.load(file)
    if isinstance(loaded, dict):
        return {name: _in_dialect(array, _NUMPY) for name, array in loaded.items()}
    return [_in_dialect(array, _NUMPY) for array in loaded]


def __getattr__(name: str) -> _Any:
    function = globals()[name] = getattr(_operators, name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_operators)})
