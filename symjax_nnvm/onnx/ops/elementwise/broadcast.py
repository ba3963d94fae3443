"""ONNX forms of the functions of two broadcast arrays, and of where."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_table
from symjax_nnvm.onnx.ops.elementwise.binary import FUNCTIONS
from symjax_nnvm.onnx.tensors import Tensor


def _where(g: Builder, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    holds = g.cast(condition, "bool")
    if condition.ndim < x.ndim:
        holds = g.along(holds, 0, x.ndim)
    return g.op("Where", holds, x, y)


onnx_table({f"broadcast_{name}": function for name, function in FUNCTIONS.items()})
onnx_table({"where": _where})
