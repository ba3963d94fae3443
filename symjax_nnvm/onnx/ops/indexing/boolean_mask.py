"""The ONNX form of boolean_mask."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.indexing import boolean_mask as ops


@onnx_form("_contrib_boolean_mask")
def _boolean_mask(g: Builder, p: ops.BooleanMaskParams, data: Tensor, index: Tensor) -> Tensor:
    return g.op("Compress", data, g.cast(index, "bool"), axis=p.axis)
