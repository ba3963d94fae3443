"""The ONNX form of LRN."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import lrn as ops


@onnx_form("LRN")
def _lrn(g: Builder, p: ops.LRNParams, data: Tensor) -> Tensor:
    x = data if data.ndim == 4 else g.op("Reshape", g.unsqueeze(data, data.ndim), [0, 0, -1, 1])  # runtimes take images
    return g.reshape_as(g.op("LRN", x, alpha=p.alpha, beta=p.beta, bias=p.knorm, size=p.nsize), data)
