"""The ONNX form of cumsum."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import in_int32
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.reduce import cumsum as ops


@onnx_form("_np_cumsum")
def _cumsum(g: Builder, p: ops.CumsumParams, a: Tensor) -> Tensor:
    x = g.cast(a if p.axis is not None else g.reshape(a, -1), g.outs[0].dtype)
    axis = g.constant(p.axis or 0, "int64")
    return in_int32(g, lambda x: g.op("CumSum", x, axis), x)
