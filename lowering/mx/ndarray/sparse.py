"""MXNet's sparse arrays as dense ones, with one warning: operators on dense arrays give equal numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array as dense_array
from lowering.mx.ndarray.creation import zeros as dense_zeros
from lowering.mx.ndarray.storage import check_storage, warn_once
from symjax_nnvm.errors import CallError


class BaseSparseNDArray(NDArray):
    """The base of MXNet's sparse arrays, for `isinstance`: no array is one here."""


class CSRNDArray(BaseSparseNDArray):
    """MXNet's arrays of compressed rows, for `isinstance`: no array is one here."""


class RowSparseNDArray(BaseSparseNDArray):
    """MXNet's arrays of some rows, for `isinstance`: no array is one here."""


def csr_matrix(arg1: Any, shape: Any = None, ctx: Any = None, dtype: Any = None) -> NDArray:
    """A dense matrix of what MXNet's function takes.

    arg1: a matrix, NumPy's or SciPy's; a shape, for zeros; (data, indices, indptr); or (data, (rows, columns)). Raises
    CallError for numbers that do not fit.
    """
    warn_once()
    parts = arg1 if isinstance(arg1, tuple) else ()
    if len(parts) == 3:
        values, columns, starts = _numbers(parts[0]), *map(_numpy, parts[1:])
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        return _filled(values, (rows, columns), shape or _bounds(len(starts) - 1, columns), ctx, dtype)
    if len(parts) == 2 and isinstance(parts[1], tuple | list):
        rows, columns = map(_numpy, parts[1])
        return _filled(_numbers(parts[0]), (rows, columns), shape or _bounds(rows, columns), ctx, dtype)
    return _dense(arg1, ctx, dtype)


def row_sparse_array(arg1: Any, shape: Any = None, ctx: Any = None, dtype: Any = None) -> NDArray:
    """A dense array of what MXNet's function takes.

    arg1: an array; a shape, for zeros; or (rows of data, their indices). Raises CallError for numbers that do not fit.
    """
    warn_once()
    if isinstance(arg1, tuple) and len(arg1) == 2 and not all(isinstance(part, int | np.integer) for part in arg1):
        values, rows = _numbers(arg1[0]), _numpy(arg1[1])
        whole = shape or (_bounds(rows, [0])[0], *values.shape[1:])
        return _filled(values, (rows,), whole, ctx, dtype)
    return _dense(arg1, ctx, dtype)


def zeros(stype: str, shape: Any, ctx: Any = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Zeros, dense."""
    check_storage(stype)
    return dense_zeros(shape, ctx, dtype)


empty = zeros


def array(source_array: Any, ctx: Any = None, dtype: Any = None) -> NDArray:
    """A dense array of a matrix, SciPy's included."""
    warn_once()
    return _dense(source_array, ctx, dtype)


def adagrad_update(
    weight: NDArray,
    grad: NDArray,
    history: NDArray,
    lr: float,
    epsilon: float = 1e-7,
    wd: float = 0.0,
    rescale_grad: float = 1.0,
    clip_gradient: float = -1.0,
    out: NDArray | None = None,
) -> NDArray:
    """AdaGrad's update, weight - lr · grad / √(history + grad² + epsilon), written to `out`; history is written, too.

    grad: is rescaled, and clipped where clip_gradient is above 0. Raises CallError for a decay, as MXNet's.
    """
    if wd:
        raise CallError(
            "adagrad_update takes no weight decay", param="wd", expected=0, got=wd, fix="mx.optimizer.AdaGrad"
        )
    scaled = grad * rescale_grad
    scaled = scaled.clip(-clip_gradient, clip_gradient) if clip_gradient > 0 else scaled
    history[:] = history + scaled * scaled
    updated = weight - lr * scaled / (history + epsilon) ** 0.5
    if out is None:
        return updated
    out[:] = updated
    return out


def _dense(given: Any, ctx: Any, dtype: Any) -> NDArray:
    if isinstance(given, tuple) and all(isinstance(size, int | np.integer) for size in given):
        return dense_zeros(given, ctx, dtype)
    dense = getattr(given, "toarray", None)  # SciPy's
    whole = given if dense is None else dense()
    return dense_array(whole, ctx, dtype or getattr(whole, "dtype", None))


def _numpy(given: Any) -> np.ndarray:
    """Return places in NumPy's memory, as whole numbers."""
    return (given.asnumpy() if isinstance(given, NDArray) else np.asarray(given)).astype(np.int64)


def _numbers(given: Any) -> np.ndarray:
    """Return values in NumPy's memory: of no dtype of their own, in float32."""
    if isinstance(given, NDArray):
        return given.asnumpy()
    return np.asarray(given, None if hasattr(given, "dtype") else np.float32)


def _bounds(rows: Any, columns: Any) -> tuple[int, int]:
    """Return the smallest shape that holds these rows and columns; rows may be their number."""
    count = rows if isinstance(rows, int) else int(np.max(rows, initial=-1)) + 1
    return count, int(np.max(columns, initial=-1)) + 1


def _filled(values: np.ndarray, places: Any, shape: Any, ctx: Any, dtype: Any) -> NDArray:
    """Return zeros with values at some places; values at one place add up."""
    whole = np.zeros(tuple(shape), dtype or values.dtype)
    try:
        np.add.at(whole, tuple(places), values)
    except (IndexError, ValueError) as error:
        raise CallError(f"The numbers do not fit a sparse array of shape {tuple(shape)}: {error}") from None
    return dense_array(whole, ctx, whole.dtype)
