"""The ONNX form of UpSampling."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import up_sampling as ops


@onnx_form("UpSampling")
def _up_sampling(g: Builder, p: ops.UpSamplingParams, *inputs: Tensor) -> Tensor:
    if p.sample_type == "bilinear":
        return _filtered(g, p, *inputs)
    height = None if len(inputs) == 1 else g.static(inputs[0], [2])[2] * p.scale
    parts = [_repeated(g, x, p.scale if height is None else height // g.static(x, [2])[2]) for x in inputs]
    return g.op("Sum", *parts) if p.multi_input_mode == "sum" and len(parts) > 1 else g.concat(parts, 1)


def _filtered(g: Builder, p: ops.UpSamplingParams, data: Tensor, weight: Tensor) -> Tensor:
    """Return the transpose of a convolution of each channel by itself."""
    shape = ops.filter_of(p)
    attrs: dict[str, Any] = {"kernel_shape": [shape.kernel] * 2, "strides": [shape.scale] * 2, "pads": [shape.pad] * 4}
    return g.op("ConvTranspose", data, weight, group=g.static(weight)[0], **attrs)


def _repeated(g: Builder, x: Tensor, factor: int) -> Tensor:
    """Return every element of the last two axes `factor` times in each."""
    if factor == 1:
        return x
    scales = g.constant([1, 1, factor, factor], "float32")
    attrs = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return g.op("Resize", x, None, scales, mode="nearest", **attrs)
