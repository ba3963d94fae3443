"""ONNX forms of softmax and its kin."""

from __future__ import annotations

from symjax_nnvm.ir.types import is_float
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import softmax as ops


def _scaled(g: Builder, p: ops.SoftmaxParams, data: Tensor) -> Tensor:
    """Return the data divided by the temperature, in the wider dtype of theirs and of the result."""
    dtype = g.outs[0].dtype
    wide = data.dtype if data.dtype == "float64" or dtype in ("float16", "bfloat16") else dtype
    data = g.cast(data, wide if is_float(wide) else "float32")
    return data if p.temperature in (None, 1.0) else g.op("Div", data, p.temperature)


def steps(g: Builder, tensor: Tensor, axis: int, dtype: str) -> Tensor:
    """The number of each place along an axis, shaped to be broadcast over a tensor."""
    axis %= tensor.ndim
    size = g.size(tensor, axis)
    if isinstance(size, int):
        numbers = g.constant(range(size), dtype)
    else:
        end = g.op("Squeeze", size, [0])
        numbers = g.cast(g.op("Range", g.constant(0, "int64"), end, g.constant(1, "int64")), dtype)
    return g.along(numbers, axis, tensor.ndim)


@onnx_form("softmax")
def _softmax(g: Builder, p: ops.SoftmaxParams, data: Tensor, length: Tensor | None = None) -> Tensor:
    axis = p.axis % data.ndim
    x = _scaled(g, p, data)
    if length is None:
        return g.cast(g.op("Softmax", x, axis=axis), g.outs[0].dtype)
    lengths = g.unsqueeze(g.cast(length, "int64"), axis) if data.ndim > 1 else g.cast(length, "int64")
    inside = g.op("Less", steps(g, data, axis, "int64"), lengths)
    # A number that leaves nothing of its power, not -inf, so that a row of length 0 is no 0 / 0.
    result = g.op(
        "Softmax", g.op("Where", inside, x, g.constant(-1e4 if x.dtype == "float16" else -1e30, x.dtype)), axis=axis
    )
    return g.cast(g.op("Where", inside, result, g.constant(0, x.dtype)), g.outs[0].dtype)


@onnx_form("log_softmax")
def _log_softmax(g: Builder, p: ops.SoftmaxParams, data: Tensor) -> Tensor:
    return g.cast(g.op("LogSoftmax", _scaled(g, p, data), axis=p.axis), g.outs[0].dtype)


@onnx_form("softmin")
def _softmin(g: Builder, p: ops.SoftmaxParams, data: Tensor) -> Tensor:
    return g.cast(g.op("Softmax", g.op("Neg", _scaled(g, p, data)), axis=p.axis), g.outs[0].dtype)


@onnx_form("SoftmaxActivation")
def _softmax_activation(g: Builder, p: ops.SoftmaxActivationParams, data: Tensor) -> Tensor:
    return g.op("Softmax", data, axis=p.axis)
