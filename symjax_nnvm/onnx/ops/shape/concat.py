"""ONNX forms of the operators that join and split arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.shape import concat as ops


@onnx_form("Concat", "_rnn_param_concat")
def _concat(g: Builder, p: ops.ConcatParams, *arrays: Tensor) -> Tensor:
    return g.concat(arrays, p.dim)


@onnx_form("stack", "_npi_stack")
def _stack(g: Builder, p: ops.StackParams, *arrays: Tensor) -> Tensor:
    axis = p.axis % (arrays[0].ndim + 1)
    return g.concat([g.unsqueeze(array, axis) for array in arrays], axis)


@onnx_form("SliceChannel", "_split_v2")
def _split(g: Builder, p: Any, data: Tensor) -> list[Tensor]:
    return _parts(g, p, data, p.axis % data.ndim)


def _parts(g: Builder, p: Any, data: Tensor, axis: int) -> list[Tensor]:
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


def _write_join(join: ops.Join) -> None:
    @onnx_form(join.name)
    def form(g: Builder, p: Any, *arrays: Tensor) -> Tensor:
        lifted = [join.lifted(p, g.static(array)) for array in arrays]
        same = [
            array if shape == array.shape else g.reshape(array, *(dim or 0 for dim in shape))
            for array, shape in zip(arrays, lifted, strict=True)
        ]
        return g.concat(same, join.axis(p, len(lifted[0])))


for _join in ops.JOINS:
    _write_join(_join)


def _write_split(name: str, of: Callable[[int], int]) -> None:
    onnx_form(name)(lambda g, p, data: _parts(g, p, data, of(data.ndim)))


for _name, _of in ops.SPLIT_AXES.items():
    _write_split(_name, _of)
