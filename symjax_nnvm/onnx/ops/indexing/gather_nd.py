"""ONNX forms of gather_nd and scatter_nd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.indexing import gather_nd as ops


def nd_places(g: Builder, indices: Tensor, sizes: Sequence[int | Tensor]) -> Tensor:
    """Indices (k, …) as (…, k), the way ONNX has them: those outside of an axis are its first or last; negative ones
    count from the end. sizes: the sizes of the axes, k of them or more; a tensor (1,) of one that run time decides."""
    lengths = g.dims(*sizes[: g.static(indices, [0])[0]])
    last = g.transpose(g.cast(indices, "int64"), (*range(1, indices.ndim), 0))
    greatest = g.constant(lengths.value - 1) if lengths.value is not None else g.op("Sub", lengths, 1)
    least = g.constant(-lengths.value) if lengths.value is not None else g.op("Neg", lengths)
    return g.op("Max", g.op("Min", last, greatest), least)


def _indexed(g: Builder, data: Tensor, indices: Tensor) -> list[int | Tensor]:
    return [g.size(data, axis) for axis in range(g.static(indices, [0])[0])]


@onnx_form("gather_nd")
def _gather_nd(g: Builder, p: Any, data: Tensor, indices: Tensor) -> Tensor:
    return g.op("GatherND", data, nd_places(g, indices, _indexed(g, data, indices)))


@onnx_form("scatter_nd")
def _scatter_nd(g: Builder, p: ops.ScatterNDParams, data: Tensor, indices: Tensor) -> Tensor:
    return g.op("ScatterND", g.fill(0, g.outs[0]), nd_places(g, indices, p.shape), data)


@onnx_form("_scatter_set_nd")
def _scatter_set_nd(g: Builder, p: Any, lhs: Tensor, rhs: Tensor, indices: Tensor) -> Tensor:
    return g.op("ScatterND", lhs, nd_places(g, indices, _indexed(g, lhs, indices)), rhs)
