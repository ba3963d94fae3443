"""ONNX forms of deformable convolutions: DeformConv."""

from __future__ import annotations

import numpy as np

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


@onnx_form("_contrib_DeformableConvolution", opset=19)
def _deformable(
    g: Builder,
    p: ops.DeformableConvolutionParams,
    data: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """MXNet's map ends with its first and last elements, ONNX' with zeros: the last ones are repeated once, and a mask
    leaves out the elements outside."""
    sizes, counts = g.static(data, [2, 3])[2:], g.static(offset, [2, 3])[2:]
    last = g.op("Pad", data, [0, 0, 0, 0, 0, 0, 1, 1], None, mode="edge")
    mask = _inside(g, p, offset, sizes, counts)
    ends = [max(pad - 1, 0) for *_, pad in p.steps]
    # Where there is no padding to take the repeated element from, one more window fits.
    wider = [
        (size + 1 + pad + end - kernel) // stride + 1 - count
        for size, count, end, (kernel, stride, _, pad) in zip(sizes, counts, ends, p.steps, strict=True)
    ]
    offset, mask = (g.op("Pad", x, [0, 0, 0, 0, 0, 0, *wider]) if any(wider) else x for x in (offset, mask))
    attrs = {**window(p), "pads": [*(pad for *_, pad in p.steps), *ends]}
    attrs |= {"group": p.num_group, "offset_group": p.num_deformable_group}
    out = g.op("DeformConv", last, weight, offset, bias, mask, **attrs)
    return g.op("Slice", out, [0, 0], list(counts), [2, 3]) if any(wider) else out


def _inside(
    g: Builder, p: ops.DeformableConvolutionParams, offset: Tensor, sizes: tuple[int, ...], counts: tuple[int, ...]
) -> Tensor:
    """Return 1 where a window's element is inside the data, else 0: (n, groups · window, h', w')."""
    pairs = g.reshape(offset, -1, p.num_deformable_group * p.window_size, 2, *counts)
    masks: list[Tensor] = []
    for axis, (size, count, (_, stride, dilation, pad)) in enumerate(zip(sizes, counts, p.steps, strict=True)):
        element = np.indices(p.kernel)[axis].reshape(-1, 1, 1) * dilation
        start = np.arange(count).reshape([-1 if i == axis else 1 for i in (0, 1)]) * stride - pad
        base = np.tile(element + start, (p.num_deformable_group, 1, 1))[None]
        place = g.op("Add", g.op("Gather", pairs, g.constant(axis, "int64"), axis=2), g.constant(base, offset.dtype))
        masks.append(g.op("And", g.op("GreaterOrEqual", place, 0.0), g.op("Less", place, float(size))))
    return g.cast(g.op("And", *masks), offset.dtype)
