"""The ONNX form of Dropout: the data, unless it drops elements at inference, too."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import dropout as ops


@onnx_form("Dropout")
def _dropout(g: Builder, p: ops.DropoutParams, data: Tensor) -> Tensor:
    if p.mode == "training" or p.p == 0:
        return data
    if p.axes:
        g.refuse("ONNX' Dropout has a mask of the data's shape, and here axes share one", "Leave axes=() in its place.")
    if p.p == 1:
        return g.op("Mul", data, 0.0)
    return g.op("Dropout", data, g.constant(p.p, "float32"), g.constant(True), dtype=data.dtype)
