"""ONNX forms of turned images."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.tensors import Tensor

DRAWN = "it changes images by chance, for training"
FIX = "Augment images outside of the network: mx.image has the same changes."


@onnx_form("_image_flip_left_right")
def _left_right(g: Builder, p: Any, data: Tensor) -> Tensor:
    return g.slice(data, 1, -1, -(2**31 - 1), -1)


@onnx_form("_image_flip_top_bottom")
def _top_bottom(g: Builder, p: Any, data: Tensor) -> Tensor:
    return g.slice(data, 0, -1, -(2**31 - 1), -1)


refuses("_image_random_flip_left_right", "_image_random_flip_top_bottom", reason=DRAWN, fix=FIX)
