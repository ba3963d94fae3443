"""The ONNX form of moments."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import in_int32
from symjax_nnvm.onnx.ops.reduce.reduction import FUNCTIONS
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.reduce import moments as ops
from symjax_nnvm.ops.reduce.reduction import reduced_axes


@onnx_form("moments")
def _moments(g: Builder, p: ops.MomentsParams, data: Tensor) -> list[Tensor]:
    axes = reduced_axes(p.reduction, data.ndim)
    mean = FUNCTIONS["mean"](g, data, axes, True)
    centred = in_int32(g, lambda x, y: g.op("Sub", x, y), data, mean)
    square = in_int32(g, lambda x: g.op("Mul", x, x), centred)
    square.shapes = data.shapes
    variance = FUNCTIONS["mean"](g, square, axes, True)
    return [g.reshape_as(value, out) for value, out in zip((mean, variance), g.outs, strict=False)]
