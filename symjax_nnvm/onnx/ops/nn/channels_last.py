"""The ONNX form of convolution with channels last."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.nn.convolution import window
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import channels_last as ops


@onnx_form("_channels_last_convolution")
def _convolution(
    g: Builder, p: ops.ChannelsLastParams, data: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """Take data (n, …, c), weight (…k, c / groups, f)."""
    spatial = range(len(p.kernel))
    last = len(p.kernel) + 1
    data = g.transpose(data, [0, last, *(i + 1 for i in spatial)])
    weight = g.transpose(weight, [last, last - 1, *spatial])
    out = g.op("Conv", data, weight, bias, group=p.num_group, **window(p))
    return g.transpose(out, [0, *(i + 2 for i in spatial), 1])
