"""ONNX forms of the operators that count along an array's axes."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import in_int32, whole
from symjax_nnvm.onnx.ops.nn.softmax import steps
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.creation import arange_like as ops


@onnx_form("_contrib_arange_like")
def _arange_like(g: Builder, p: ops.ArangeLikeParams, data: Tensor) -> Tensor:
    if p.axis is None:
        count = g.op("Squeeze", g.op("Size", g.reshape(data, -1)))
        numbers = g.op("Range", g.constant(0, "int64"), count, g.constant(1, "int64"))
    else:
        numbers = g.reshape(steps(g, data, p.axis, "int64"), -1)
    if p.repeat > 1:
        numbers = g.op("Div", numbers, p.repeat)
    step, start = (g.constant(whole(value, data.dtype), data.dtype) for value in (p.step, p.start))
    values = in_int32(
        g, lambda n, step, start: g.op("Add", g.op("Mul", n, step), start), g.cast(numbers, data.dtype), step, start
    )
    return g.reshape_as(values, g.outs[0])


@onnx_form("_contrib_index_array")
def _index_array(g: Builder, p: ops.IndexArrayParams, data: Tensor) -> Tensor:
    shape = g.shape(data)
    rows = [g.op("Expand", steps(g, data, axis, "int64"), shape) for axis in p.chosen(data.ndim)]
    return g.concat([g.unsqueeze(row, data.ndim) for row in rows], -1)
