"""ONNX forms of broadcasting to a shape, and of the sum that undoes it."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor


@onnx_form("broadcast_to", "_npi_broadcast_to", "broadcast_axis", "broadcast_like")
def _broadcast_to(g: Builder, p: Any, data: Tensor, like: Tensor | None = None) -> Tensor:
    out = g.outs[0]
    return data if data.sizes == out.sizes else g.op("Expand", data, g.sizes(out.sizes))


@onnx_form("_sum_like")
def _sum_like(g: Builder, p: Any, data: Tensor, like: Tensor) -> Tensor:
    added = data.ndim - like.ndim
    axes = [i for i in range(data.ndim) if i < added or like.sizes[i - added] != data.sizes[i]]
    return g.reshape_as(g.reduce("ReduceSum", data, axes, keepdims=True), g.outs[0]) if axes else data
