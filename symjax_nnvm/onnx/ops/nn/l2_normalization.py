"""The ONNX form of L2Normalization."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import l2_normalization as ops
from symjax_nnvm.ops.reduce.reduction import reduced_axes


@onnx_form("L2Normalization")
def _l2_normalization(g: Builder, p: ops.L2NormalizationParams, data: Tensor) -> Tensor:
    axes = reduced_axes(ops.norm_reduction(p), data.ndim)
    norm = g.op("Sqrt", g.op("Add", g.reduce("ReduceSum", g.op("Mul", data, data), axes, keepdims=True), p.eps))
    return g.op("Div", data, norm)
