"""The ONNX form of histogram."""

from __future__ import annotations

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import narrow
from symjax_nnvm.onnx.tensors import Tensor, numpy_dtype
from symjax_nnvm.ops.reduce import histogram as ops


@onnx_form("_histogram")
def _histogram(g: Builder, p: ops.HistogramParams, data: Tensor, bins: Tensor | None = None) -> list[Tensor]:
    return _uniform(g, p, data) if bins is None else [_between(g, data, bins), bins]


def _count(g: Builder, truth: Tensor) -> Tensor:
    """Return how often something holds of each column."""
    return g.op("ReduceSum", g.cast(truth, "int64"), [0], keepdims=0)


def _between(g: Builder, data: Tensor, bins: Tensor) -> Tensor:
    """Return the number of elements in each bin: those that are not below its lower edge, less those not below its
    upper one."""
    wide = "int32" if narrow(data.dtype) else data.dtype
    column, row = g.cast(g.reshape(data, -1, 1), wide), g.unsqueeze(g.cast(bins, wide), 0)
    (count,) = g.static(g.outs[0])
    reached = _count(g, g.op("GreaterOrEqual", column, row))
    beyond = _count(g, g.op("Greater", column, row))  # what is the last edge is in the last bin
    ends = g.concat([g.slice(reached, 0, 1, count), g.slice(beyond, 0, count, count + 1)], 0)
    return g.op("Sub", g.slice(reached, 0, 0, count), ends)


def _uniform(g: Builder, p: ops.HistogramParams, data: Tensor) -> list[Tensor]:
    """Count the elements of each bin: the bin is computed, then corrected by comparing with the rounded edges."""
    number, (low, high) = p.bin_cnt or 0, p.range or (0.0, 0.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = g.constant(ops.edges(number, low, high, numpy_dtype(data.dtype)))
    rounded = g.cast(edges, "float64")
    x = g.cast(g.reshape(data, -1), "float64")
    place = g.cast(g.op("Floor", g.op("Mul", g.op("Sub", x, low), number / (high - low))), "int64")
    place = g.op("Max", g.op("Min", place, number - 1), 0)
    below = g.op("Less", x, g.op("Gather", rounded, place, axis=0))
    place = g.op("Sub", place, g.cast(below, "int64"))
    upper = g.op("GreaterOrEqual", x, g.op("Gather", rounded, g.op("Add", place, 1), axis=0))
    place = g.op("Add", place, g.cast(g.op("And", upper, g.op("Less", place, number - 1)), "int64"))
    inside = g.op("And", g.op("GreaterOrEqual", x, low), g.op("LessOrEqual", x, high))
    hit = g.op("Equal", g.unsqueeze(g.op("Where", inside, place, g.constant(number)), 1), np.arange(number))
    return [_count(g, hit), edges]
