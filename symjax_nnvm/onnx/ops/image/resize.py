"""ONNX forms of images in other sizes, and of rectangles of them."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.image import resize as ops


def _matrix(new: int, old: int, interp: int, shrinks: bool) -> np.ndarray:
    """Return what each new pixel takes of each old one: (new, old)."""
    columns, weights = ops.taps(new, old, interp, shrinks)
    matrix = np.zeros((new, old), np.float32)
    np.add.at(matrix, (np.arange(new)[:, None], columns), weights)
    return matrix


@onnx_form("_image_resize")
def _resize(g: Builder, p: ops.ResizeParams, data: Tensor) -> Tensor:
    """A product with a matrix along each axis: OpenCV's interpolations are not all ONNX'."""
    last = data.ndim - 1
    height, width = g.static(data, [last - 2, last - 1])[-3:-1]
    new_height, new_width = g.static(g.outs[0], [last - 2, last - 1])[-3:-1]
    shrinks = new_height <= height and new_width <= width
    wide = "float32" if data.dtype == "uint8" else data.dtype or "float32"
    rows = g.constant(_matrix(new_height, height, p.interp, shrinks), wide)
    columns = g.constant(_matrix(new_width, width, p.interp, shrinks).T.copy(), wide)
    batch = list(range(last - 2))
    planes = g.transpose(g.cast(data, wide), [*batch, last, last - 2, last - 1])
    resized = g.op("MatMul", g.op("MatMul", rows, planes), columns)
    if data.dtype == "uint8":
        resized = g.op("Clip", g.op("Round", resized), 0.0, 255.0)
    return g.cast(g.transpose(resized, [*batch, last - 1, last, last - 2]), data.dtype or wide)


@onnx_form("_image_crop")
def _crop(g: Builder, p: ops.ImageCropParams, data: Tensor) -> Tensor:
    axes = [data.ndim - 3, data.ndim - 2]
    return g.op("Slice", data, [p.y, p.x], [p.y + p.height, p.x + p.width], axes)
