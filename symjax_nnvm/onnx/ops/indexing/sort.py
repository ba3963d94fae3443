"""ONNX forms of the operators that order elements."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import narrow
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.indexing import sort as ops


def _ordered(g: Builder, data: Tensor, axis: int | None, k: int | None, ascend: bool) -> tuple[Tensor, Tensor, int]:
    """Return (the first k elements in order, or all, as they are; where they were; the axis)."""
    line = data if axis is not None else g.reshape(data, -1)
    at = 0 if axis is None else axis % data.ndim
    wide = g.cast(line, "int32") if narrow(data.dtype) else line
    size = g.op("Shape", line, start=at, end=at + 1) if k is None and axis is None else k or g.size(data, at)
    values, indices = g.ops(
        "TopK",
        wide,
        [size] if isinstance(size, int) else size,
        dtypes=[None, "int64"],
        axis=at,
        largest=int(not ascend),
    )
    return g.cast(values, data.dtype), indices, at


@onnx_form("sort")
def _sort(g: Builder, p: ops.SortParams, data: Tensor) -> Tensor:
    return _ordered(g, data, p.axis, None, p.is_ascend)[0]


@onnx_form("argsort")
def _argsort(g: Builder, p: ops.ArgsortParams, data: Tensor) -> Tensor:
    return g.cast(_ordered(g, data, p.axis, None, p.is_ascend)[1], g.outs[0].dtype)


@onnx_form("topk")
def _topk(g: Builder, p: ops.TopKParams, data: Tensor) -> Tensor | list[Tensor]:
    values, indices, axis = _ordered(g, data, p.axis, p.k if p.k >= 1 else None, p.is_ascend)
    match p.ret_typ:
        case "value":
            return values
        case "indices":
            return g.cast(indices, g.outs[0].dtype)
        case "both":
            return [values, g.cast(indices, g.outs[1].dtype)]
    zeros = g.fill(0, data) if p.axis is not None else g.reshape(g.fill(0, data), -1)
    ones = g.op("Expand", g.constant(1, data.dtype), g.op("Shape", indices))
    return g.reshape_as(g.op("ScatterElements", zeros, indices, ones, axis=axis), g.outs[0])


@onnx_form("_take_along_axis")
def _take_along_axis(g: Builder, p: ops.AlongAxisParams, data: Tensor, indices: Tensor) -> Tensor:
    return g.op("GatherElements", data, g.cast(indices, "int64"), axis=p.axis)
