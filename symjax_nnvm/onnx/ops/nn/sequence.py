"""ONNX forms of the operators on batches of sequences of different lengths."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.nn.softmax import steps
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import sequence as ops

_FAR = 2**31 - 1
"""An end that no axis reaches."""


def whole_lengths(g: Builder, lengths: Tensor, dtype: str = "int64") -> Tensor:
    """Lengths, which MXNet gives in any dtype, as whole numbers: fractions are truncated."""
    return g.cast(lengths, dtype)


@onnx_form("SequenceMask")
def _sequence_mask(g: Builder, p: ops.SequenceMaskParams, data: Tensor, lengths: Tensor | None = None) -> Tensor:
    if lengths is None:
        return data
    along_batch = g.along(whole_lengths(g, lengths), 1 - p.axis, data.ndim)
    inside = g.op("Less", steps(g, data, p.axis, "int64"), along_batch)
    return g.op("Where", inside, data, g.constant(p.value, data.dtype))


@onnx_form("SequenceReverse")
def _sequence_reverse(g: Builder, p: ops.SequenceParams, data: Tensor, lengths: Tensor | None = None) -> Tensor:
    if lengths is None:
        return g.slice(data, p.axis, -1, -_FAR, -1)
    longest = g.size(data, p.axis)
    whole = g.op("Min", whole_lengths(g, lengths), longest)
    return g.op("ReverseSequence", data, whole, time_axis=p.axis, batch_axis=1 - p.axis)


@onnx_form("SequenceLast")
def _sequence_last(g: Builder, p: ops.SequenceParams, data: Tensor, lengths: Tensor | None = None) -> Tensor:
    if lengths is None:
        return g.op("Gather", data, g.constant(-1, "int64"), axis=p.axis)
    last = g.op("Sub", whole_lengths(g, lengths), 1)
    last = g.op("Max", g.op("Min", last, _less_one(g, g.size(data, p.axis))), 0)
    batch_first = g.transpose(data, (1 - p.axis, p.axis, *range(2, data.ndim)))
    return g.op("GatherND", batch_first, g.unsqueeze(last, 1), batch_dims=1)


def _less_one(g: Builder, size: int | Tensor) -> int | Tensor:
    return size - 1 if isinstance(size, int) else g.op("Sub", size, 1)
