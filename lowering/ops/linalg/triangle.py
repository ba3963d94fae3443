"""JAX rules of the operators on diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.ops.linalg import triangle as ops


@lowers("_triangle")
def _triangle(p: ops.TriangleParams, data: Array) -> Array:
    return jnp.tril(data, p.offset) if p.lower else jnp.triu(data, p.offset)


def diagonal(matrices: Array, offset: int = 0) -> Array:
    """A diagonal of each matrix."""
    return jnp.diagonal(matrices, offset, axis1=-2, axis2=-1)


@lowers("_linalg_extractdiag")
def _extractdiag(p: ops.MatrixDiagonalParams, a: Array) -> Array:
    return diagonal(a, p.offset)


@lowers("_linalg_makediag")
def _makediag(p: ops.MatrixDiagonalParams, a: Array) -> Array:
    # Each element stands in its row, and a mask of the diagonal fuses with its users; a scatter would not.
    side = a.shape[-1] + abs(p.offset)
    rows = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(max(0, -p.offset), max(0, p.offset))])
    return jnp.where(jnp.eye(side, k=p.offset, dtype=bool), rows[..., None], jnp.zeros((), a.dtype))


def _places(p: ops.PackedParams, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of a triangle: a lower one row after row, an upper one column after column."""
    if ops.is_lower(p):
        return np.tril_indices(side, p.offset)
    columns, rows = np.tril_indices(side, -p.offset)
    return rows, columns


@lowers("_linalg_extracttrian")
def _extracttrian(p: ops.PackedParams, a: Array) -> Array:
    rows, columns = _places(p, a.shape[-1])
    return a[..., rows, columns]


@lowers("_linalg_maketrian", needs=("out_shapes",))
def _maketrian(p: ops.PackedParams, a: Array, *, out_shapes: list[tuple[int, ...]]) -> Array:
    # A gather from a static table, masked: every platform is faster at it than at a scatter.
    side = out_shapes[0][-1]
    table, inside = np.zeros((side, side), np.int32), np.zeros((side, side), bool)
    places = _places(p, side)
    table[places], inside[places] = np.arange(a.shape[-1]), True
    return jnp.where(inside, a[..., table], jnp.zeros((), a.dtype))


@lowers("_matrix_fill")
def _matrix_fill(p: Any, data: Array, like: Array) -> Array:
    return jnp.broadcast_to(data.reshape((*like.shape[:-2], 1, 1)), like.shape)


@lowers("_backward_matrix_fill")
def _backward_matrix_fill(p: Any, data: Array) -> Array:
    return _numbers(jnp.sum(data, (-2, -1)))


@lowers("_linalg_sumlogdiag")
def _sumlogdiag(p: Any, a: Array) -> Array:
    return _numbers(jnp.sum(jnp.log(diagonal(a)), -1))


def _numbers(array: Array) -> Array:
    """Return one number for each matrix: (1,) for a single matrix."""
    return array.reshape(array.shape or (1,))
