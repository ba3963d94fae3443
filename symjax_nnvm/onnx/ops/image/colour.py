"""ONNX forms of changed colours: of those that are not drawn."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.ops.image.flip import DRAWN, FIX
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.image import colour as ops


@onnx_form("_image_adjust_lighting")
def _adjust_lighting(g: Builder, p: ops.AdjustLightingParams, data: Tensor) -> Tensor:
    if g.static(data, [2])[2] == 1:
        return data
    wide = "float64" if data.dtype == "float64" else "float32"
    adjusted = g.op("Add", g.cast(data, wide), g.constant(ops.PCA @ np.array(p.alpha), wide))
    if data.dtype == "uint8":
        adjusted = g.op("Clip", adjusted, 0.0, 255.0)
    return g.cast(adjusted, data.dtype or wide)


refuses(
    *(f"_image_random_{name}" for name in ("brightness", "contrast", "saturation", "hue", "color_jitter", "lighting")),
    reason=DRAWN,
    fix=FIX,
)
