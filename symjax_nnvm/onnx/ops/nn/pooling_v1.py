"""The ONNX form of Pooling_v1, on the windows of Pooling."""

from __future__ import annotations

from dataclasses import replace

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.nn.pooling import pool
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import pooling_v1 as ops


@onnx_form("Pooling_v1")
def _pooling(g: Builder, p: ops.PoolingV1Params, data: Tensor) -> Tensor:
    if p.pool_type == "max":
        pads = p.pad if p.pad and not p.global_pool else (0,) * (data.ndim - 2)
        return pool(g, replace(p.windows, pad=()), g.pad(data, [0, 0, *pads], [0, 0, *pads], 0.0))
    sums = pool(g, p.sums, data)
    return sums if p.scale == 1 else g.op("Mul", sums, p.scale)
