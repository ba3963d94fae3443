"""The ONNX form of Embedding."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import embedding as ops


@onnx_form("Embedding")
def _embedding(g: Builder, p: ops.EmbeddingParams, data: Tensor, weight: Tensor) -> Tensor:
    """Replace indices out of range by the nearest valid one."""
    rows = g.op("Clip", g.cast(data, "int64"), 0, p.input_dim - 1)
    return g.op("Gather", weight, rows, axis=0)
