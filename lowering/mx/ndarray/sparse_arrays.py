"""MXNet's sparse arrays: dense inside, with one warning, and shown as sparse ones, with their parts.
Operators on dense arrays give equal numbers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from lowering.executor.bound_arrays import ArrayCell
from lowering.mx.accepted_types import ContextLike, DType, ShapeLike
from lowering.mx.context import CPU, Context, as_context
from lowering.mx.ndarray.array import OF_STORAGE, NDArray, invoke, stored_as
from lowering.mx.ndarray.cells import HostCell, StoredCell, View, host
from lowering.mx.ndarray.creation import CreationError, stored_array
from lowering.mx.ndarray.creation import array as dense_array
from lowering.mx.ndarray.creation import zeros as dense_zeros
from lowering.mx.ndarray.storage_types import warn_once
from lowering.mx.tape import recording
from symjax_nnvm import symbol as symbols
from symjax_nnvm.errors import CallError, SymbolIndexError
from symjax_nnvm.ir.attributes import FInferStorageType
from symjax_nnvm.ir.op import Op
from symjax_nnvm.mxnet.array_file import read_record
from symjax_nnvm.mxnet.sparse import CSRArray, RowSparseArray, SparseArray
from symjax_nnvm.symbol import function_named


class BaseSparseNDArray(NDArray):
    """The base of sparse arrays. The value is dense; the parts are those that the array was made from, and once
    another value was written, those of its elements, or rows, that are not zero."""

    __slots__ = ("_made_from",)

    def __init__(self, cell: ArrayCell | View | HostCell, context: Context = CPU, entry: recording.Entry | None = None):
        super().__init__(cell, context, entry)
        self._made_from: tuple[jax.Array | np.ndarray, SparseArray] | None = None

    @staticmethod
    def _parts_of(dense: np.ndarray) -> SparseArray:
        """Return the parts of a dense array."""
        raise NotImplementedError

    def parts(self) -> SparseArray:
        """The parts, in NumPy's memory, as an array file holds them."""
        now = self._now()
        if self._made_from is None or self._made_from[0] is not now:
            self._made_from = now, self._parts_of(host(self.cell))
        return self._made_from[1]

    def _now(self) -> jax.Array | np.ndarray:
        """Return the value that it is now: another object after each write."""
        stored = self.cell.stored if isinstance(self.cell, StoredCell) else None
        return self.value if stored is None else stored

    def made_from(self, parts: SparseArray) -> Any:
        """The array itself, which has these parts, if they are of its dtype, as long as its value is the one that it
        has now."""
        if parts.dtype == self.cell.dtype:
            self._made_from = self._now(), parts
        return self

    @property
    def data(self) -> NDArray:
        """A copy of the values that are stored."""
        return self._part(self.parts().data)

    @property
    def indices(self) -> NDArray:
        """The numbers of the columns of a csr matrix's values, or of a row_sparse array's rows, int64."""
        return self._part(self.parts().indices)  # pyright: ignore[reportAttributeAccessIssue]

    def _part(self, values: np.ndarray) -> NDArray:
        return stored_array(values, self.context)

    def __repr__(self) -> str:
        return f"\n<{type(self).__name__} {'x'.join(map(str, self.shape))} @{self.context}>"

    def __reduce__(self) -> Any:
        return _unpickled, (self.parts(), str(self.context.device_type), self.context.device_id)

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Take the array of a pickle that MXNet wrote, as `NDArray` does."""
        stored = read_record(bytes(state["handle"]))
        if not isinstance(stored, SparseArray):
            stored = self._parts_of(np.asarray(stored))
        like = of_parts(stored)
        self.cell, self.entry, self.gradient, self._made_from = like.cell, None, None, like._made_from

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copy as `NDArray.copyto` does; a copy on a context has the storage type and the parts."""
        copied = super().copyto(other)
        if copied is other:
            return copied
        return stored_as(copied, self.stype).made_from(self.parts())  # pyright: ignore[reportAttributeAccessIssue]

    def astype(self, dtype: DType, copy: bool = True) -> NDArray:
        """The array's values in another dtype, of the same storage type."""
        return stored_as(super().astype(dtype, copy), self.stype)

    def detach(self) -> NDArray:
        """The same array, through which no gradient flows."""
        return stored_as(super().detach(), self.stype)

    def _operator(self, op: str, symbols: tuple[Any, ...], params: dict[str, str], hint: str) -> NDArray:
        shapes = {array.shape if isinstance(array, NDArray) else None for array in symbols}
        if shapes == {self.shape} and FInferStorageType.get(Op.get(op)) is not None:  # others broadcast
            return invoke(function_named(op), *symbols, **params)
        return super()._operator(op, symbols, params, hint)


class CSRNDArray(BaseSparseNDArray):
    """A matrix that is shown as compressed rows: `data`, the columns of its values as `indices`, and `indptr`."""

    __slots__ = ()

    stype = "csr"

    @staticmethod
    def _parts_of(dense: np.ndarray) -> SparseArray:
        rows, columns = np.nonzero(dense)
        starts = np.searchsorted(rows, np.arange(len(dense) + 1))
        return CSRArray(dense.shape, dense[rows, columns], indptr=starts.astype(np.int64), indices=columns)

    @property
    def indptr(self) -> NDArray:
        """Where the values of each row begin among `data`, and where those of the last end, int64."""
        return self._part(self.parts().indptr)  # pyright: ignore[reportAttributeAccessIssue]

    def asscipy(self) -> Any:
        """A `scipy.sparse.csr_matrix` of the same parts."""
        parts = self.parts()
        numbers = parts.data, parts.indices, parts.indptr  # pyright: ignore[reportAttributeAccessIssue]
        return importlib.import_module("scipy.sparse").csr_matrix(numbers, shape=self.shape, dtype=self.dtype)

    def check_format(self, full_check: bool = True) -> None:
        """Check that the columns of each row rise, which nothing here needs and MXNet's operators do. full_check: if
        false, nothing is checked. Raises CallError."""
        parts = self.parts()
        columns, starts = parts.indices, parts.indptr  # pyright: ignore[reportAttributeAccessIssue]
        falls = np.flatnonzero(np.diff(columns) <= 0) + 1  # which may be between two rows
        inside = np.setdiff1d(falls, starts)
        if full_check and len(inside):
            row = int(np.searchsorted(starts, inside[0], "right")) - 1
            problem = f"Check the validity of this sparse NDArray: the columns of row {row} do not rise"
            raise CallError(problem, expected="each column once, in rising order", fix='x.tostype("csr") sorts them.')

    def __getitem__(self, key: Any) -> NDArray:
        """A row by its number, as a matrix of one row, or several rows by a slice without a step, as a new csr matrix;
        for all other keys as of a dense array. Raises SymbolIndexError, an IndexError, for a row that is not there."""
        if isinstance(key, int | np.integer):
            if not -len(self) <= key < len(self):
                raise SymbolIndexError(f"index {key} is out of bounds", expected=f"a row of {len(self)}")
            key = slice(int(key), int(key) + 1 or None)
        if not isinstance(key, slice) or key.step is not None:
            return super().__getitem__(key)
        return self if key == slice(None) else stored_as(super().__getitem__(key).copy(), "csr")


class RowSparseNDArray(BaseSparseNDArray):
    """An array that is shown as some of its rows: `data` has them, `indices` their numbers."""

    __slots__ = ()

    stype = "row_sparse"

    @staticmethod
    def _parts_of(dense: np.ndarray) -> SparseArray:
        rows = np.flatnonzero(dense.reshape(len(dense), -1).any(axis=1))
        return RowSparseArray(dense.shape, dense[rows], indices=rows)

    def check_format(self, full_check: bool = True) -> None:
        """Nothing to check: the numbers of rows rise."""

    def retain(self, indices: NDArray) -> NDArray:
        """The rows of these numbers; all others are zeros."""
        return invoke(symbols.sparse.retain, self, indices)

    def __getitem__(self, key: Any) -> NDArray:
        """The array itself for `[:]`; for other keys as of a dense array."""
        return self if isinstance(key, slice) and key == slice(None) else super().__getitem__(key)


def _as_csr(cell: ArrayCell | View | HostCell, context: Context, entry: recording.Entry | None) -> CSRNDArray:
    """Return an array as csr. Raises CreationError for anything that is not a matrix."""
    if len(cell.shape) != 2:
        raise CreationError("A csr array must have two axes", got=f"shape {cell.shape}", fix="Use stype='row_sparse'.")
    return CSRNDArray(cell, context, entry)


OF_STORAGE.update(csr=_as_csr, row_sparse=RowSparseNDArray)


def of_parts(parts: SparseArray, ctx: ContextLike = None) -> Any:
    """A sparse array of its parts, in their dtype."""
    warn_once()
    whole: Any = stored_array(parts.todense(), as_context(ctx))
    return stored_as(whole, "csr" if isinstance(parts, CSRArray) else "row_sparse").made_from(parts)  # pyright: ignore[reportAttributeAccessIssue]


def getnnz(data: CSRNDArray, axis: int | None = None) -> NDArray:
    """How many values a csr matrix stores, int64: of all rows together (1,), of each column with axis=0, of each row
    with axis=1. Raises CallError for another axis and for other arrays."""
    if not isinstance(data, CSRNDArray):
        raise CallError(
            "getnnz counts the stored numbers of a csr matrix only", got=type(data).__name__, fix="x.tostype('csr')"
        )
    if axis not in (None, 0, 1):
        raise CallError(f"Unexpected value for axis({axis}). Candidates are None, 0, and 1")
    if axis == 0:
        counts = np.bincount(data.indices.asnumpy(), minlength=data.shape[1])
    else:
        starts = data.indptr.asnumpy()
        counts = np.diff(starts) if axis == 1 else starts[-1:]
    return stored_array(counts.astype(np.int64), data.context)


def csr_matrix(
    arg1: Any, shape: Sequence[int] | None = None, ctx: ContextLike = None, dtype: DType = None
) -> CSRNDArray:
    """A matrix of what MXNet's function takes.

    arg1: a matrix, NumPy's or SciPy's; a shape, for zeros; (data, indices, indptr); or (data, (rows, columns)). shape:
    of these parts, by default the smallest that holds them; that of arg1 if it has one. Raises CallError for numbers
    that do not fit, CreationError, a ValueError, for shapes that do not.
    """
    warn_once()
    parts = () if _is_shape(arg1) or not isinstance(arg1, tuple) else arg1
    if len(parts) == 3:
        values, columns, starts = _numbers(parts[0], dtype), *map(_numpy, parts[1:])
        whole = tuple(shape or _smallest(len(starts) - 1, columns))
        return _of(whole, lambda: CSRArray(whole, values, indptr=starts, indices=columns), ctx)
    if len(parts) == 2 and isinstance(parts[1], tuple | list) and len(parts[1]) == 2:
        places = tuple(map(_numpy, parts[1]))
        return _filled(_numbers(parts[0], dtype), places, shape or _smallest(*places), ctx, "csr")
    return _stored(arg1, shape, ctx, dtype, "csr")


def row_sparse_array(
    arg1: Any, shape: Sequence[int] | None = None, ctx: ContextLike = None, dtype: DType = None
) -> RowSparseNDArray:
    """An array of what MXNet's function takes.

    arg1: an array; a shape, for zeros; or (rows of data, their indices). shape: as of `csr_matrix`. Raises as it
    does.
    """
    warn_once()
    if isinstance(arg1, tuple) and len(arg1) == 2 and not _is_shape(arg1):
        values, rows = _numbers(arg1[0], dtype), _numpy(arg1[1])
        whole = tuple(shape or (_smallest(rows, [0])[0], *values.shape[1:]))
        if np.any(np.diff(rows) <= 0):
            return _filled(values, (rows,), whole, ctx, "row_sparse")
        return _of(whole, lambda: RowSparseArray(whole, values, indices=rows), ctx)
    return _stored(arg1, shape, ctx, dtype, "row_sparse")


def zeros(stype: str, shape: ShapeLike, ctx: ContextLike = None, dtype: DType = None, **kwargs: Any) -> NDArray:
    """Zeros, shown with a storage type."""
    return dense_zeros(shape, ctx, dtype, stype, **kwargs)


empty = zeros


def array(source_array: Any, ctx: ContextLike = None, dtype: DType = None) -> NDArray:
    """A copy of a sparse array, or a csr matrix of SciPy's. Raises CallError for a dense array."""
    if isinstance(source_array, BaseSparseNDArray) or hasattr(source_array, "toarray"):
        return dense_array(source_array, ctx, dtype)
    fix = 'mx.nd.array(x).tostype("csr") makes a sparse one.'
    problem = "Please use `tostype` to create RowSparseNDArray or CSRNDArray from an NDArray"
    raise CallError(problem, got=type(source_array).__name__, fix=fix)


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
            "adagrad_update does not support weight decay", param="wd", expected=0, got=wd, fix="mx.optimizer.AdaGrad"
        )
    scaled = grad * rescale_grad
    scaled = scaled.clip(-clip_gradient, clip_gradient) if clip_gradient > 0 else scaled
    history[:] = history + scaled * scaled
    updated = weight - lr * scaled / (history + epsilon) ** 0.5
    if out is None:
        return updated
    out[:] = updated
    return out


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(size, int | np.integer) for size in value)


def _stored(source: Any, shape: Sequence[int] | None, ctx: ContextLike, dtype: DType, stype: str) -> Any:
    """Return zeros of a shape, or an array's values, shown with a storage type. Raises CreationError where `shape` is
    another."""
    own = source if _is_shape(source) else np.shape(source)
    if shape is not None and tuple(shape) != tuple(own):
        raise CreationError(f"Shape mismatch detected. {tuple(own)} v.s. {tuple(shape)}", fix="Leave shape= out.")
    if _is_shape(source):
        return dense_zeros(source, ctx, dtype, stype)
    whole = source.toarray() if hasattr(source, "toarray") else source  # SciPy's
    return stored_as(dense_array(whole, ctx, dtype or getattr(whole, "dtype", None)), stype)


def _of(shape: tuple[int, ...], make: Callable[[], SparseArray], ctx: ContextLike) -> Any:
    """Return the array of parts. Raises CallError for parts that do not fit."""
    try:
        return of_parts(make(), ctx)
    except (IndexError, ValueError) as error:
        raise CallError(f"The numbers do not fit a sparse array of shape {shape}: {error}") from None


def _numpy(places: Any) -> np.ndarray:
    """Return places in NumPy's memory, as whole numbers."""
    return (places.asnumpy() if isinstance(places, NDArray) else np.asarray(places)).astype(np.int64)


def _numbers(source: Any, dtype: DType) -> np.ndarray:
    """Return values in NumPy's memory: of no dtype of their own, in float32."""
    if isinstance(source, NDArray):
        values = source.asnumpy()
    else:
        values = np.asarray(source, None if hasattr(source, "dtype") else np.float32)
    return values if dtype is None else values.astype(dtype)


def _smallest(rows: Any, columns: Any) -> tuple[int, int]:
    """Return the smallest shape that holds these rows and columns; rows may be their number. Raises CreationError where
    there are none."""
    if not (rows if isinstance(rows, int) else len(rows)) or not len(columns):
        raise CreationError(
            "The shape of a sparse array without values cannot be inferred: invalid shape", fix="Say shape=."
        )
    count = rows if isinstance(rows, int) else int(np.max(rows, initial=-1)) + 1
    return count, int(np.max(columns, initial=-1)) + 1


def _filled(values: np.ndarray, places: Any, shape: Sequence[int], ctx: ContextLike, stype: str) -> Any:
    """Return zeros with values at some places; values at one place add up."""
    whole = np.zeros(tuple(shape), values.dtype)
    try:
        np.add.at(whole, tuple(places), values)
    except (IndexError, ValueError) as error:
        raise CallError(f"The numbers do not fit a sparse array of shape {tuple(shape)}: {error}") from None
    return stored_as(dense_array(whole, ctx, whole.dtype), stype)


def _unpickled(parts: SparseArray, device_type: str, device_id: int) -> Any:
    return of_parts(parts, Context(device_type, device_id))
