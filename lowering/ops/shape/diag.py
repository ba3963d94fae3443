"""JAX rules of diag and of its gradient.

A diagonal of a matrix of c columns is every (c + 1)-th of its elements in a row: a strided slice, and its transpose is
a pad with gaps. Both are static, where indexing would gather and scatter.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.shape import diag as ops


def _places(k: int, rows: int, columns: int) -> range:
    """Return the places of the k-th diagonal among the elements of a matrix, row after row."""
    first = k if k > 0 else -k * columns
    return range(first, first + ops.cut_length(k, rows, columns) * (columns + 1), columns + 1)


def _cut(matrices: Array, k: int) -> Array:
    """Map (…, r, c) → the k-th diagonals (…, length)."""
    *batch, rows, columns = matrices.shape
    places = _places(k, rows, columns)
    flat = matrices.reshape(*batch, rows * columns)
    first, end = (places[0], places[-1] + 1) if places else (0, 0)
    return lax.slice_in_dim(flat, first, end, places.step, axis=len(batch))


def _laid(diagonals: Array, k: int, rows: int, columns: int) -> Array:
    """Map (…, length) → matrices (…, r, c) with zeros elsewhere."""
    batch = diagonals.shape[:-1]
    places, size = _places(k, rows, columns), rows * columns
    around = (places[0], size - 1 - places[-1], places.step - 1) if places else (size, 0, 0)
    widths = [(0, 0, 0)] * len(batch) + [around]
    return lax.pad(diagonals, jnp.zeros((), diagonals.dtype), widths).reshape(*batch, rows, columns)


@lowers("diag")
def _diag(p: ops.DiagParams, data: Array) -> Array:
    if data.ndim == 1:
        side = data.shape[0] + abs(p.k)
        return _laid(data, p.k, side, side)
    return _cut(jnp.moveaxis(data, p.axes(data.ndim), (-2, -1)), p.k)


@lowers("_backward_diag")
def _backward_diag(p: ops.DiagParams, ograd: Array, data: Array) -> Array:
    if data.ndim == 1:
        return _cut(ograd, p.k)
    axes = p.axes(data.ndim)
    return jnp.moveaxis(_laid(ograd, p.k, data.shape[axes[0]], data.shape[axes[1]]), (-2, -1), axes)


def _around(diagonal: Array, k: int) -> Array:
    """Map (n,) → the matrix with it on the k-th diagonal."""
    side = diagonal.shape[0] + abs(k)
    return _laid(diagonal, k, side, side)


@lowers("_np_diag")
def _np_diag(p: ops.NumpyDiagParams, data: Array) -> Array:
    return _around(data, p.k) if data.ndim == 1 else _cut(data, p.k)


@lowers("_backward_np_diag")
def _backward_np_diag(p: ops.NumpyDiagParams, ograd: Array, data: Array) -> Array:
    return _cut(ograd, p.k) if data.ndim == 1 else _laid(ograd, p.k, *data.shape)


@lowers("_np_diagonal")
def _diagonal(p: ops.DiagonalParams, data: Array) -> Array:
    return _cut(jnp.moveaxis(data, p.axes(data.ndim), (-2, -1)), p.offset)


@lowers("_backward_np_diagonal")
def _backward_diagonal(p: ops.DiagonalParams, ograd: Array, data: Array) -> Array:
    axes = p.axes(data.ndim)
    return jnp.moveaxis(_laid(ograd, p.offset, data.shape[axes[0]], data.shape[axes[1]]), (-2, -1), axes)


@lowers("_np_diagflat")
def _diagflat(p: ops.NumpyDiagParams, data: Array) -> Array:
    return _around(data.reshape(-1), p.k)


@lowers("_backward_np_diagflat")
def _backward_diagflat(p: ops.NumpyDiagParams, ograd: Array, data: Array) -> Array:
    return _cut(ograd, p.k).reshape(data.shape)


@lowers("_npi_diag_indices_from")
def _diag_indices_from(p: Any, data: Array) -> Array:
    places = lax.iota(jax.dtypes.canonicalize_dtype("int64"), data.shape[0])
    return jnp.broadcast_to(places, (data.ndim, data.shape[0]))


@lowers("_npi_tril")
def _tril(p: ops.NumpyDiagParams, data: Array) -> Array:
    return jnp.tril(jnp.broadcast_to(data, data.shape * 2) if data.ndim == 1 else data, p.k)
