"""ONNX forms of take, batch_take, pick and one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.indexing import take as ops


def places(g: Builder, indices: Tensor, data: Tensor, axis: int, mode: str = "clip") -> Tensor:
    """Indices of an axis of data as int64, which MXNet gives in any dtype: those outside brought inside."""
    indices = g.cast(indices, "int64")
    size = g.size(data, axis)
    if mode == "wrap":
        return g.op("Mod", indices, size)
    last = size - 1 if isinstance(size, int) else g.op("Sub", size, 1)
    return g.op("Max", g.op("Min", indices, last), 0)


@onnx_form("take")
def _take(g: Builder, p: ops.TakeParams, a: Tensor, indices: Tensor) -> Tensor:
    return g.op("Gather", a, places(g, indices, a, p.axis, p.mode), axis=p.axis)


@onnx_form("one_hot")
def _one_hot(g: Builder, p: ops.OneHotParams, indices: Tensor) -> Tensor:
    """Return one-hot rows by comparison: a negative index, which ONNX' OneHot counts from the end, is none here."""
    dtype = g.outs[0].dtype
    column = g.unsqueeze(g.cast(indices, "int64"), indices.ndim)
    hot = g.op("Equal", column, np.arange(p.depth))
    if (p.on_value, p.off_value) == (1, 0):
        return g.cast(hot, dtype)
    return g.op("Where", hot, g.constant(p.on_value, dtype), g.constant(p.off_value, dtype))


@onnx_form("pick")
def _pick(g: Builder, p: ops.PickParams, data: Tensor, index: Tensor) -> Tensor:
    axis = (p.axis or 0) % data.ndim
    at = places(g, index, data, axis, p.mode)
    if index.ndim < data.ndim:
        at = g.unsqueeze(at, axis)
    return g.reshape_as(g.op("GatherElements", data, at, axis=axis), g.outs[0])


@onnx_form("batch_take")
def _batch_take(g: Builder, p: Any, a: Tensor, indices: Tensor) -> Tensor:
    at = g.unsqueeze(places(g, indices, a, 1), 1)
    return g.op("Squeeze", g.op("GatherElements", a, at, axis=1), [1])
