"""ONNX forms of the operators on diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.linalg import triangle as ops


@onnx_form("_triangle")
def _triangle(g: Builder, p: ops.TriangleParams, data: Tensor) -> Tensor:
    return g.op("Trilu", data, g.constant(p.offset, "int64"), upper=int(not p.lower))


def _picked(g: Builder, a: Tensor, places: np.ndarray) -> Tensor:
    """Return elements of matrices (…, r, c) by their numbers, row after row: (…, n)."""
    rows, columns = g.static(a, [-2, -1])[-2:]
    flat = g.reshape(a, *(g.size(a, i) for i in range(a.ndim - 2)), rows * columns)
    return g.op("Gather", flat, places.astype(np.int64), axis=a.ndim - 2)


def diagonal(g: Builder, a: Tensor, offset: int = 0) -> Tensor:
    """A diagonal of each matrix."""
    rows, columns = g.static(a, [-2, -1])[-2:]
    return _picked(g, a, np.arange(rows * columns).reshape(rows, columns).diagonal(offset))


@onnx_form("_linalg_extractdiag")
def _extractdiag(g: Builder, p: ops.MatrixDiagonalParams, a: Tensor) -> Tensor:
    return diagonal(g, a, p.offset)


@onnx_form("_linalg_makediag")
def _makediag(g: Builder, p: ops.MatrixDiagonalParams, a: Tensor) -> Tensor:
    """Return each element in its row, where the diagonal goes through it."""
    side = g.static(a, [-1])[-1] + abs(p.offset)
    none = [0] * (a.ndim - 1)
    rows = g.pad(a, [*none, max(0, -p.offset)], [*none, max(0, p.offset)], 0)
    return g.op("Where", np.eye(side, k=p.offset, dtype=bool), g.unsqueeze(rows, a.ndim), g.constant(0, a.dtype))


def _places(p: ops.PackedParams, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of a triangle: a lower one row after row, an upper one column after column."""
    if ops.is_lower(p):
        return np.tril_indices(side, p.offset)
    columns, rows = np.tril_indices(side, -p.offset)
    return rows, columns


@onnx_form("_linalg_extracttrian")
def _extracttrian(g: Builder, p: ops.PackedParams, a: Tensor) -> Tensor:
    side = g.static(a, [-1])[-1]
    rows, columns = _places(p, side)
    return _picked(g, a, rows * side + columns)


@onnx_form("_linalg_maketrian")
def _maketrian(g: Builder, p: ops.PackedParams, a: Tensor) -> Tensor:
    side = g.static(g.outs[0], [-1])[-1]
    table, inside = np.zeros((side, side), np.int64), np.zeros((side, side), bool)
    places = _places(p, side)
    table[places], inside[places] = np.arange(g.static(a, [-1])[-1]), True
    return g.op("Where", inside, g.op("Gather", a, table, axis=a.ndim - 1), g.constant(0, a.dtype))


@onnx_form("_matrix_fill")
def _matrix_fill(g: Builder, p: Any, data: Tensor, like: Tensor) -> Tensor:
    numbers = g.reshape(data, *(g.size(like, i) for i in range(like.ndim - 2)), 1, 1)
    return g.op("Expand", numbers, g.shape(like))


@onnx_form("_linalg_sumlogdiag")
def _sumlogdiag(g: Builder, p: Any, a: Tensor) -> Tensor:
    logs = g.op("Log", diagonal(g, a))
    return g.reshape_as(g.op("ReduceSum", logs, [-1], keepdims=int(a.ndim == 2)), g.outs[0])
