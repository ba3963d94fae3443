"""ONNX forms of bilinear resizing, adaptive average pooling and cropping."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.vision import resize as ops


@onnx_form("_contrib_BilinearResize2D")
def _bilinear_resize(g: Builder, p: ops.BilinearResizeParams, data: Tensor, like: Tensor | None = None) -> Tensor:
    if data.sizes == g.outs[0].sizes:
        return data
    mode = "align_corners" if p.align_corners else "half_pixel"
    sizes = g.sizes(g.outs[0].sizes)
    return g.op("Resize", data, None, None, sizes, mode="linear", coordinate_transformation_mode=mode)


def _means(new: int, size: int) -> np.ndarray:
    """Each new element is the mean of a window of old ones: (new, size)."""
    matrix = np.zeros((new, size))
    for i in range(new):
        begin, end = i * size // new, -(-(i + 1) * size // new)
        matrix[i, begin:end] = 1 / (end - begin)
    return matrix


@onnx_form("_contrib_AdaptiveAvgPooling2D")
def _adaptive_avg_pooling(g: Builder, p: ops.AdaptiveAvgPoolingParams, data: Tensor) -> Tensor:
    """Windows of one size are those of a pooling; others a product with a matrix along each axis."""
    if p.sizes == (1, 1):
        return g.op("GlobalAveragePool", data)
    height, width = g.static(data, [2, 3])[2:]
    if height % p.sizes[0] == width % p.sizes[1] == 0:
        kernel = [height // p.sizes[0], width // p.sizes[1]]
        return g.op("AveragePool", data, kernel_shape=kernel, strides=kernel)
    rows, columns = _means(p.sizes[0], height), _means(p.sizes[1], width).T
    return g.op("MatMul", g.op("MatMul", g.constant(rows, data.dtype), data), g.constant(columns, data.dtype))


@onnx_form("Crop")
def _crop(g: Builder, p: ops.CropParams, data: Tensor, like: Tensor | None = None) -> Tensor:
    if like is not None and None in g.outs[0].shape[2:] and not p.center_crop:
        end = g.op("Add", g.dims(*(g.size(like, axis) for axis in (2, 3))), list(p.offset))
        return g.op("Slice", data, list(p.offset), end, [2, 3])
    part = g.static(g.outs[0], [2, 3])[2:]
    whole = g.static(data, [2, 3])[2:] if p.center_crop else part
    begin = ops.crop_begin(p, (whole[0], whole[1]), (part[0], part[1]))
    return g.op("Slice", data, list(begin), [a + d for a, d in zip(begin, part, strict=True)], [2, 3])
