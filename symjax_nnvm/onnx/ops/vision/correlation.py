"""The ONNX form of Correlation: the second map cut out at each displacement, compared, and averaged over patches."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import wide
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.vision import correlation as ops


@onnx_form("Correlation")
def _correlation(g: Builder, p: ops.CorrelationParams, data1: Tensor, data2: Tensor) -> Tensor:
    channels = g.static(data1, [1])[1]
    counts = g.static(g.outs[0], [2, 3])[2:]
    extents = [(count - 1) * p.stride1 + p.kernel_size for count in counts]
    pads = [0, 0, p.pad_size, p.pad_size]

    def cut(x: Tensor, begin: tuple[int, int]) -> Tensor:
        return g.op("Slice", x, list(begin), [a + d for a, d in zip(begin, extents, strict=True)], [2, 3])

    def compared(unmoved: Tensor, moved: Tensor) -> Tensor:
        if p.is_multiply:
            return g.op("Mul", unmoved, moved)
        return g.op("Abs", g.op("Sub", unmoved, moved))

    def function(first: Tensor, second: Tensor) -> Tensor:
        first.shapes, second.shapes = data1.shapes, data2.shapes
        first, second = (g.pad(x, pads, pads, 0) for x in (first, second))
        unmoved = cut(first, (p.max_displacement, p.max_displacement))
        steps = [p.max_displacement + (i - p.radius) * p.stride2 for i in range(p.width)]
        sums = [
            g.op("ReduceSum", compared(unmoved, cut(second, (row, column))), [1], keepdims=1)
            for row in steps
            for column in steps
        ]
        kernel, stride = [p.kernel_size] * 2, [p.stride1] * 2
        means = g.op("AveragePool", g.concat(sums, 1), kernel_shape=kernel, strides=stride)
        return g.op("Mul", means, 1 / channels)

    return wide(g, function, data1, data2)
