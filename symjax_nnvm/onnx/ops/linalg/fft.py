"""ONNX forms of the Fourier transforms and of the count sketch."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import wide
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.linalg import fft as ops


def _transform(g: Builder, rows: Tensor) -> Tensor:
    """Return the transform of rows (n, d, 1) or (n, d, 2), real and imaginary parts last."""
    if g.opset < 20:
        return g.op("DFT", rows, axis=1)
    return g.op("DFT", rows, None, g.constant(1, "int64"))


@onnx_form("_contrib_fft")
def _fft(g: Builder, p: ops.FFTParams, data: Tensor) -> Tensor:
    length = g.static(data, [-1])[-1]
    spectrum = wide(g, lambda x: _transform(g, g.reshape(x, -1, length, 1)), data)
    return g.reshape_as(spectrum, g.outs[0])


@onnx_form("_contrib_ifft")
def _ifft(g: Builder, p: ops.FFTParams, data: Tensor) -> Tensor:
    """The real part of the inverse, without its factor, is that of the transform of the conjugate."""
    length = g.static(data, [-1])[-1] // 2

    def function(x: Tensor) -> Tensor:
        pairs = g.op("Mul", g.reshape(x, -1, length, 2), g.constant([1, -1], x.dtype))
        return g.op("Gather", _transform(g, pairs), g.constant(0, "int64"), axis=2)

    return g.reshape_as(wide(g, function, data), g.outs[0])


@onnx_form("_contrib_count_sketch")
def _count_sketch(g: Builder, p: ops.CountSketchParams, data: Tensor, h: Tensor, s: Tensor) -> Tensor:
    """Return each element, times its sign, added to the place that h says: a product with ones there."""
    length = g.static(data, [-1])[-1]
    at = g.op("Max", g.op("Min", g.cast(g.reshape(h, length), "int64"), p.out_dim - 1), 0)
    ones = g.cast(g.op("Equal", g.op("Unsqueeze", at, [1]), np.arange(p.out_dim)), data.dtype)
    return g.op("MatMul", g.op("Mul", data, g.reshape(s, length)), ones)
