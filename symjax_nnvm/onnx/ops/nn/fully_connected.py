"""The ONNX form of FullyConnected."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import fully_connected as ops


@onnx_form("FullyConnected")
def _fully_connected(
    g: Builder, p: ops.FullyConnectedParams, data: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    if p.flatten or data.ndim == 2:
        rows = data if data.ndim == 2 else g.op("Flatten", data, axis=1)
        return g.op("Gemm", rows, weight, bias, transB=1)
    out = g.op("MatMul", data, g.transpose(weight, (1, 0)))
    return out if bias is None else g.op("Add", out, bias)
