"""Arrays by chance that MXNet stores sparsely, and that are dense here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowering.mx import ndarray as nd
from lowering.mx.accepted_types import ContextLike, DType
from lowering.mx.ndarray import NDArray
from lowering.mx.testing.random_arrays import assign_each, default_dtype
from symjax_nnvm.errors import ParamError


def rand_sparse_ndarray(
    shape: Sequence[int],
    stype: str,
    density: float | None = None,
    dtype: DType = None,
    distribution: str | None = None,
    data_init: float | None = None,
    rsp_indices: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
    ctx: ContextLike = None,
) -> tuple[NDArray, tuple[Any, ...]]:
    """Uniform numbers of NumPy's generator as a dense array, and the parts that a sparse array of them has.

    stype: "row_sparse", whose parts are (values of rows, rows), NumPy's; or "csr", whose parts are (indptr, indices,
    data), NDArrays. density: which part of the rows, or numbers, is there, by default a random part. distribution:
    "uniform", or of csr "powerlaw", each row with twice as many numbers as the one before. data_init: one number for
    all. rsp_indices: the rows that are there. modifier_func: of the numbers of row_sparse. shuffle_csr_indices means
    nothing. Raises AssertionError, ParamError.
    """
    part = np.random.rand() if density is None else density
    kind = default_dtype() if dtype is None else dtype
    spread = distribution or "uniform"
    assert stype in ("row_sparse", "csr"), "unknown storage type"
    assert spread == "uniform" or (stype, spread) == ("csr", "powerlaw"), f"Distribution not supported: {spread}"
    if stype == "csr":
        assert len(shape) == 2
        return _csr(shape, part, kind, spread, data_init, ctx)
    rows = np.flatnonzero(np.random.rand(shape[0]) < part) if rsp_indices is None else np.asarray(rsp_indices)
    assert len(rows) <= shape[0]
    values = np.random.rand(len(rows), *shape[1:]).astype(kind)
    if data_init is not None:
        values.fill(data_init)
    if modifier_func is not None and values.size:
        values = assign_each(values, modifier_func)
    sparse_array = nd.sparse.row_sparse_array((values.astype(kind), rows), shape=tuple(shape), dtype=kind, ctx=ctx)
    return sparse_array, (values, rows)


def _csr(
    shape: Sequence[int], density: float, dtype: DType, distribution: str, data_init: float | None, ctx: ContextLike
) -> tuple[NDArray, tuple[NDArray, ...]]:
    """Return numbers at int(density · size) places of a matrix, and (indptr, indices, data)."""
    rows, columns = shape
    if not 0 <= density <= 1:
        raise ParamError("density is out of range", param="density", expected="0 to 1", got=density)
    if min(rows, columns) < 1:
        raise ParamError("A matrix needs rows and columns", param="shape", expected="sizes from 1", got=tuple(shape))
    count = int(rows * columns * density)
    if distribution == "powerlaw":
        order = _power_law(rows, columns)
        if not 2 * rows <= count <= len(order):
            expected = f"{2 * rows} to {len(order)} numbers in {rows} × {columns}"
            raise ParamError(
                "density is out of range", param="density", expected=expected, got=f"{density}, {count} numbers"
            )
        chosen = np.sort(order[:count])
        values = 1 + np.random.uniform(0.001, 2, count)
    else:
        chosen = np.sort(np.random.permutation(rows * columns)[:count])
        values = np.random.rand(count) if data_init is None else np.full(count, data_init)
    starts = np.searchsorted(chosen, np.arange(rows + 1) * columns)
    parts = starts, chosen % columns, values.astype(dtype)
    matrix = nd.sparse.csr_matrix((parts[2], parts[1], parts[0]), shape=(rows, columns), dtype=dtype, ctx=ctx)
    return matrix, tuple(
        nd.array(part, dtype=part.dtype) for part in (*(index.astype(np.int32) for index in parts[:2]), parts[2])
    )


def _power_law(rows: int, columns: int) -> np.ndarray:
    """Return places in the order in which they are filled: one of each row, and then rows of 2, 4, 8, … numbers."""
    later = [row * columns + np.arange(1, min(columns, 2 ** min(row + 1, 62))) for row in range(rows)]
    return np.concatenate([np.arange(rows) * columns, *later])


def create_sparse_array(
    shape: Sequence[int],
    stype: str,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: DType = None,
    modifier_func: Callable[[Any], Any] | None = None,
    density: float = 0.5,
    shuffle_csr_indices: bool = False,
) -> NDArray:
    """Return only the array of `rand_sparse_ndarray`. Raises AssertionError, ParamError."""
    assert stype in ("row_sparse", "csr"), f"Unknown storage type: {stype}"
    rows = None if rsp_indices is None else np.sort(np.asarray(rsp_indices))
    options = {"data_init": data_init, "rsp_indices": rows, "modifier_func": modifier_func}
    return rand_sparse_ndarray(shape, stype, density=density, dtype=dtype, **options)[0]


def create_sparse_array_zd(
    shape: Sequence[int],
    stype: str,
    density: float,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: DType = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
) -> NDArray:
    """`create_sparse_array`; only rsp_indices decides the rows of row_sparse arrays."""
    part = 0.0 if stype == "row_sparse" else density
    return create_sparse_array(shape, stype, data_init, rsp_indices, dtype, modifier_func, part)
