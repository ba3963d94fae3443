"""ONNX forms of BatchNorm_v1, SyncBatchNorm and BatchNormWithReLU."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.nn.batch_norm import inverse_root, normalise
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn.batch_norm import BatchNormParams
from symjax_nnvm.ops.nn.batch_norm_variants import BatchNormV1Params


@onnx_form("BatchNorm_v1", "_contrib_SyncBatchNorm")
def _batch_norm_v1(g: Builder, p: BatchNormV1Params, *inputs: Tensor) -> list[Tensor]:
    out = normalise(g, p, *inputs)
    return [out, *inputs[3:]] if p.output_mean_var else [out]


@onnx_form("_contrib_BatchNormWithReLU")
def _batch_norm_with_relu(g: Builder, p: BatchNormParams, *inputs: Tensor) -> list[Tensor]:
    out = g.op("Relu", normalise(g, p, *inputs))
    return [out, inputs[3], inverse_root(g, inputs[4], p.eps)] if p.output_mean_var else [out]
