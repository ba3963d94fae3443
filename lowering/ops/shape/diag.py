"""JAX rules of diag and of its gradient.

A diagonal of a matrix of c columns is every (c + 1)-th of its elements in a row: a strided slice, and its transpose is
a pad with gaps. Both are static, where indexing would gather and scatter.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.shape import diag as ops


def _places(k: int, rows: int, columns: int) -> range:
    """Return the places of the k-th diagonal among the elements of a matrix, row after row."""
    first = k if k > 0 else -k * columns
    return range(first, first + ops.diagonal_length(k, rows, columns) * (columns + 1), columns + 1)


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
