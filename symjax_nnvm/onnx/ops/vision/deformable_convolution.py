"""The ONNX form of the modulated deformable convolution: DeformConv."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.nn.convolution import window
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.vision import deformable_convolution as ops


@onnx_form("_contrib_ModulatedDeformableConvolution", opset=19)
def _modulated(
    g: Builder,
    p: ops.ModulatedDeformableConvolutionParams,
    data: Tensor,
    offset: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    attrs = {"group": p.num_group, "offset_group": p.num_deformable_group, **window(p)}
    return g.op("DeformConv", data, weight, offset, bias, mask, **attrs)
