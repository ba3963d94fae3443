"""ONNX forms of the operators that put new values into a copy of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import whole
from symjax_nnvm.onnx.ops.indexing.take import places
from symjax_nnvm.onnx.ops.nn.softmax import steps
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.indexing import slice_assign as ops
from symjax_nnvm.ops.shape.slice import SliceParams, kept_indices


@onnx_form("_contrib_index_copy")
def _index_copy(g: Builder, p: Any, old: Tensor, index: Tensor, new: Tensor) -> Tensor:
    return g.op("ScatterND", old, g.unsqueeze(places(g, index, old, 0), 1), new)


def _grid(g: Builder, p: SliceParams, data: Tensor) -> np.ndarray | None:
    """Return the places of a slice on the axes that are cut, (n₀, n₁, …, number of axes); None where there is none."""
    shape = g.static(data, range(len(p.begin)))
    indices = [kept_indices(p, axis, shape[axis]) for axis in range(len(p.begin))]
    if not all(indices):
        return None
    return np.stack(np.meshgrid(*indices, indexing="ij"), -1).astype(np.int64)


@onnx_form("_slice_assign")
def _slice_assign(g: Builder, p: SliceParams, lhs: Tensor, rhs: Tensor) -> Tensor:
    grid = _grid(g, p, lhs)
    return lhs if grid is None else g.op("ScatterND", lhs, grid, rhs)


@onnx_form("_slice_assign_scalar")
def _slice_assign_scalar(g: Builder, p: ops.SliceAssignScalarParams, data: Tensor) -> Tensor:
    grid = _grid(g, p, data)
    if grid is None:
        return data
    shape = [*grid.shape[:-1], *g.static(data)[len(p.begin) :]]
    new = g.op("Expand", g.constant(whole(p.scalar, data.dtype), data.dtype), shape)
    return g.op("ScatterND", data, grid, new)


@onnx_form("fill_element_0index")
def _fill_element(g: Builder, p: Any, lhs: Tensor, mhs: Tensor, rhs: Tensor) -> Tensor:
    hit = g.op("Equal", steps(g, lhs, 1, "int64"), g.unsqueeze(g.cast(rhs, "int64"), 1))
    return g.op("Where", hit, g.unsqueeze(mhs, 1), lhs)
