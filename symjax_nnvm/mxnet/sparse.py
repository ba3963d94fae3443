"""Sparse arrays as MXNet's files hold them: their values can be read and made dense, nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from symjax_nnvm.errors import ParamsFormatError
from symjax_nnvm.ir.types import shape_problem

MAX_DENSE_BYTES = 1 << 34
"""A sparse array of a few bytes can claim any shape; larger ones than this are not made dense."""


@dataclass(frozen=True)
class SparseArray:
    """The base of sparse arrays: the logical shape and the stored values."""

    shape: tuple[int, ...]
    data: np.ndarray

    @property
    def dtype(self) -> np.dtype:
        """Return the dtype of the values."""
        return self.data.dtype

    def _empty(self) -> np.ndarray:
        size = prod(self.shape) * self.dtype.itemsize
        if size > MAX_DENSE_BYTES:
            raise ParamsFormatError(
                f"A sparse array of shape {self.shape} takes {size} bytes as a dense one, more than {MAX_DENSE_BYTES}."
            )
        if (problem := shape_problem(self.shape, self.dtype.itemsize)) is not None:
            raise ParamsFormatError(f"A sparse array of shape {self.shape} cannot be dense: {problem}.")
        try:
            return np.zeros(self.shape, self.dtype)
        except MemoryError:
            raise ParamsFormatError(f"A sparse array of shape {self.shape} does not fit into memory.") from None

    def todense(self) -> np.ndarray:
        """Return the array with its zeros. Raises ParamsFormatError when it would be larger than MAX_DENSE_BYTES."""
        raise NotImplementedError


def _check_indices(indices: np.ndarray, count: int, limit: int, what: str) -> None:
    if indices.shape != (count,):
        raise ValueError(f"the {what} have shape {indices.shape}, expected ({count},)")
    if count and not 0 <= int(indices.min()) <= int(indices.max()) < limit:
        raise ValueError(f"the {what} go from {indices.min()} to {indices.max()}, expected 0 to {limit - 1}")


@dataclass(frozen=True)
class RowSparseArray(SparseArray):
    """Some rows of an array: data (k, …) are the rows that `indices` (k,) number, in rising order; others are zero."""

    indices: np.ndarray = field(kw_only=True)

    def __post_init__(self) -> None:
        if not self.shape or self.data.ndim != len(self.shape) or self.data.shape[1:] != self.shape[1:]:
            raise ValueError(f"rows of shape {self.data.shape} do not fit an array of shape {self.shape}")
        _check_indices(self.indices, self.data.shape[0], self.shape[0], "row numbers")
        if np.any(self.indices[1:] <= self.indices[:-1]):
            raise ValueError("the row numbers are not in rising order")

    def todense(self) -> np.ndarray:
        """Return the array (n, …) with the rows in their places."""
        dense = self._empty()
        dense[self.indices] = self.data
        return dense


@dataclass(frozen=True)
class CSRArray(SparseArray):
    """A matrix in compressed rows: row r holds data[indptr[r]:indptr[r + 1]] in the columns `indices` of
    that range."""

    indptr: np.ndarray = field(kw_only=True)
    indices: np.ndarray = field(kw_only=True)

    def __post_init__(self) -> None:
        if len(self.shape) != 2 or self.data.ndim != 1:
            raise ValueError(f"a csr array is a matrix with a vector of values, not {self.shape} and {self.data.shape}")
        count = self.data.shape[0]
        _check_indices(self.indices, count, self.shape[1], "column numbers")
        if self.indptr.shape == (0,) and count == 0:
            return
        rows = self.indptr
        if (
            rows.shape != (self.shape[0] + 1,)
            or int(rows[0]) != 0
            or int(rows[-1]) != count
            or np.any(rows[1:] < rows[:-1])  # np.diff of narrow integers wraps around
        ):
            raise ValueError(f"indptr does not divide {count} values among {self.shape[0]} rows")

    def todense(self) -> np.ndarray:
        """Return the array (rows, columns); values that share a place add up."""
        dense = self._empty()
        if self.data.size:
            rows = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr.astype(np.int64)))
            np.add.at(dense, (rows, self.indices), self.data)
        return dense


def sparse_from_members(parts: Mapping[str, Any]) -> SparseArray:
    """Return the array that MXNet 2.0 keeps as a folder of .npy members: data, indices, shape, (csr) indptr, and
    format.

    The header of `format` is malformed as 2.0 writes it, so its bytes are given; the word stands at their end.
    Raises ValueError.
    """
    text = bytes(parts["format"]).replace(b"\0", b"").rstrip()
    kind = next((kind for kind in ("row_sparse", "csr") if text.endswith(kind.encode())), None)
    expected = {"data", "indices", "shape", "format"} | ({"indptr"} if kind == "csr" else set())
    if kind is None:
        raise ValueError("the member format ends neither with row_sparse nor with csr")
    if parts.keys() != expected:
        raise ValueError(f"a {kind} array has members {sorted(expected)}, not {sorted(parts)}")
    for name in expected - {"data", "format"}:
        if parts[name].dtype.kind not in "iu" or parts[name].ndim != 1:
            raise ValueError(f"the member {name} is not a vector of integers")
    shape = tuple(int(dim) for dim in parts["shape"])
    if kind == "csr":
        return CSRArray(shape, parts["data"], indptr=parts["indptr"], indices=parts["indices"])
    return RowSparseArray(shape, parts["data"], indices=parts["indices"])
