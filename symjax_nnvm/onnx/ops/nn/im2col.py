"""ONNX forms of im2col and of its transpose."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.nn.convolution import window
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import im2col as ops


@onnx_form("im2col")
def im2col(g: Builder, p: ops.Im2ColParams, data: Tensor) -> Tensor:
    """A convolution of each channel by itself, with one filter for each place in the window: 1 there, else 0."""
    channels = g.static(data, [1])[1]
    picks = np.eye(p.window_size).reshape(p.window_size, 1, *p.kernel)
    weight = g.constant(np.tile(picks, (channels, *[1] * (len(p.kernel) + 1))), data.dtype)
    columns = g.op("Conv", data, weight, group=channels, **window(p))
    return g.op("Reshape", columns, [0, channels * p.window_size, -1])


@onnx_form("col2im")
def _col2im(g: Builder, p: ops.Col2ImParams, data: Tensor) -> Tensor:
    attrs = {key: value for key, value in window(p).items() if key != "kernel_shape"}
    return g.op("Col2Im", data, list(p.output_size), list(p.kernel), **attrs)
