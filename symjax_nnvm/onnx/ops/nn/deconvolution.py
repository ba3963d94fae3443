"""The ONNX form of deconvolution."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.nn.convolution import channels_first, inverse, window
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import deconvolution as ops


@onnx_form("Deconvolution")
def _deconvolution(
    g: Builder, p: ops.DeconvolutionParams, data: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    attrs, adjustments = window(p), list(p.adjustments)
    if p.has_target:
        sizes = g.static(data, p.spatial_axes)
        geometry, shape = ops.transposed(p, sizes)
        attrs = window(geometry)
        spans = zip(geometry.spatial_axes, geometry.steps, strict=True)
        adjustments = [shape[i] + 2 * pad - (sizes[i] - 1) * stride - kernel for i, (kernel, stride, _, pad) in spans]
    order = channels_first(p.axes)
    data, weight = g.transpose(data, order), g.transpose(weight, order)
    more = {"output_padding": adjustments if any(adjustments) else None, "group": p.num_group}
    return g.transpose(g.op("ConvTranspose", data, weight, bias, **attrs, **more), inverse(order))
