"""The ONNX forms of diag and of the triangle below it."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.shape.arranged import arrangements
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.shape import diag as ops


@onnx_form("diag")
def _diag(g: Builder, p: ops.DiagParams, data: Tensor) -> Tensor:
    return laid(g, data, p.k) if data.ndim == 1 else _cut(g, p, data)


def laid(g: Builder, diagonal: Tensor, k: int) -> Tensor:
    """A vector (n,) on the k-th diagonal of a matrix, with zeros elsewhere: above the main one its place is that of
    its row, below that of its column."""
    side = g.static(diagonal)[0] + abs(k)
    line = g.unsqueeze(g.pad(diagonal, [0], [abs(k)], 0), 1 if k >= 0 else 0)
    return g.op("Where", np.eye(side, k=k, dtype=bool), line, g.constant(0, diagonal.dtype))


def _cut(g: Builder, p: ops.DiagParams, data: Tensor) -> Tensor:
    """Return the k-th diagonals of matrices: every (columns + 1)-th of their elements."""
    down, right = (axis % data.ndim for axis in p.axes(data.ndim))
    order = [*(i for i in range(data.ndim) if i not in (down, right)), down, right]
    shape = g.static(data, [down, right])
    rows, columns = shape[down], shape[right]
    places = np.arange(rows * columns).reshape(rows, columns).diagonal(p.k)
    flat = g.reshape(g.transpose(data, order), *(g.size(data, i) for i in order[:-2]), rows * columns, allow_zero=True)
    return g.op("Gather", flat, places.astype(np.int64), axis=data.ndim - 2)


arrangements(
    {
        "_np_diag": lambda p, places: np.diag(places, p.k),
        "_np_diagonal": lambda p, places: np.diagonal(places, p.offset, p.axis1, p.axis2),
        "_np_diagflat": lambda p, places: np.diagflat(places, p.k),
        "_npi_tril": lambda p, places: np.tril(places, p.k),
    }
)


@onnx_form("_npi_diag_indices_from")
def _diag_indices_from(g: Builder, p: object, data: Tensor) -> Tensor:
    side = g.static(data)[0]
    return g.constant(np.broadcast_to(np.arange(side), (data.ndim, side)), "int64")
