"""ONNX forms of SoftmaxOutput and softmax_cross_entropy."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.nn.softmax import steps
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.loss import softmax_output as ops


@onnx_form("SoftmaxOutput")
def _softmax_output(g: Builder, p: ops.SoftmaxOutputParams, data: Tensor, label: Tensor) -> Tensor:
    if p.multi_output or p.preserve_shape or data.ndim <= 2:
        return g.op("Softmax", data, axis=1 if p.multi_output else -1)
    return g.reshape_as(g.op("Softmax", g.op("Flatten", data, axis=1), axis=-1), data)


@onnx_form("softmax_cross_entropy")
def _softmax_cross_entropy(g: Builder, p: Any, data: Tensor, label: Tensor) -> Tensor:
    """Return - Σ log p[label]; a label that is not a class has the least probability."""
    probabilities = g.op("Softmax", data, axis=1)
    chosen = g.op("Equal", steps(g, data, 1, "int64"), g.unsqueeze(g.cast(label, "int64"), 1))
    picked = g.op("Where", chosen, probabilities, g.constant(0, data.dtype))
    likelihood = g.op("Max", g.op("ReduceSum", picked, [1], keepdims=0), 1e-8)
    return g.op("Neg", g.op("ReduceSum", g.op("Log", likelihood), keepdims=1))
