"""ONNX forms of tile and repeat."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import in_int32
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.shape import tile as ops


@onnx_form("tile")
def _tile(g: Builder, p: ops.TileParams, data: Tensor) -> Tensor:
    ndim = max(len(p.reps), data.ndim)
    whole = g.unsqueeze(data, *range(ndim - data.ndim))
    return g.op("Tile", whole, [1] * (ndim - len(p.reps)) + list(p.reps))


@onnx_form("repeat")
def _repeat(g: Builder, p: ops.RepeatParams, data: Tensor) -> Tensor:
    if p.repeats == 0:
        return g.constant(np.zeros(0), data.dtype)
    if p.axis is None:
        columns, axis, ndim = g.reshape(data, -1, 1), 0, 1
    else:
        axis, ndim = p.axis % data.ndim, data.ndim
        columns = g.unsqueeze(data, axis + 1)
    reps = [p.repeats if i == axis + 1 else 1 for i in range(ndim + 1)]
    return g.reshape_as(in_int32(g, lambda x: g.op("Tile", x, reps), columns), g.outs[0])
