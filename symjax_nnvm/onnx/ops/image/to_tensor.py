"""ONNX forms of images as networks take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.image import to_tensor as ops


@onnx_form("_image_to_tensor")
def _to_tensor(g: Builder, p: Any, data: Tensor) -> Tensor:
    order = [0, 3, 1, 2] if data.ndim == 4 else [2, 0, 1]
    return g.op("Div", g.transpose(g.cast(data, "float32"), order), 255.0)


@onnx_form("_image_normalize")
def _normalize(g: Builder, p: ops.NormalizeParams, data: Tensor) -> Tensor:
    wide = "float64" if data.dtype == "float64" else "float32"
    mean, std = (g.constant(np.array(numbers)[:, None, None], wide) for numbers in (p.mean, p.std))
    normalized = g.op("Div", g.op("Sub", g.cast(data, wide), mean), std)
    return g.cast(normalized, data.dtype or wide)
