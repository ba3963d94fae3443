"""ONNX forms of ravel_multi_index and unravel_index."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.indexing import ravel_multi_index as ops


@onnx_form("_ravel_multi_index")
def _ravel_multi_index(g: Builder, p: ops.RavelParams, data: Tensor) -> Tensor:
    rows = g.cast(data, "int64")
    place = g.op("Gather", rows, g.constant(0, "int64"), axis=0)
    for i, size in enumerate(p.dims[1:], 1):
        row = g.op("Gather", rows, g.constant(i, "int64"), axis=0)
        place = g.op("Add", g.op("Mul", place, size), row)
    return g.cast(place, data.dtype)


@onnx_form("_unravel_index")
def _unravel_index(g: Builder, p: ops.RavelParams, data: Tensor) -> Tensor:
    """A negative place has negative indices, as in C."""
    quotient, rows = g.reshape(g.cast(data, "int64"), -1), []
    for size in reversed(p.dims[1:]):
        rows.append(g.op("Mod", quotient, size, fmod=1))
        quotient = g.op("Div", quotient, size)
    stacked = g.concat([g.unsqueeze(row, 0) for row in (quotient, *reversed(rows))], 0)
    return g.reshape_as(g.cast(stacked, data.dtype), g.outs[0])
