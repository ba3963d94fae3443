"""ONNX forms of the operators that join and split arrays."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.shape import concat as ops


@onnx_form("Concat", "_rnn_param_concat")
def _concat(g: Builder, p: ops.ConcatParams, *arrays: Tensor) -> Tensor:
    return g.concat(arrays, p.dim)


@onnx_form("stack")
def _stack(g: Builder, p: ops.StackParams, *arrays: Tensor) -> Tensor:
    axis = p.axis % (arrays[0].ndim + 1)
    return g.concat([g.unsqueeze(array, axis) for array in arrays], axis)


@onnx_form("SliceChannel", "_split_v2")
def _split(g: Builder, p: Any, data: Tensor) -> list[Tensor]:
    axis = p.axis % data.ndim
    count = len(g.outs)
    if count == 1:
        parts = [data]
    elif data.shape[axis] is None and isinstance(p, ops.SliceChannelParams):
        parts = g.ops("Split", data, dtypes=[None] * count, axis=axis, num_outputs=count)
    else:
        lengths = list(ops.lengths(p, g.static(data, [axis])[axis]))
        parts = g.ops("Split", data, lengths, dtypes=[None] * count, axis=axis)
    if not p.squeeze_axis:
        return parts
    return [g.op("Squeeze", part, [axis]) for part in parts]
