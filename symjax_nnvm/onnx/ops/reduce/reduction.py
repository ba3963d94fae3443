"""ONNX forms of the reductions."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from symjax_nnvm.ir.types import is_float
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import in_int32
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.reduce import reduction as ops

Function = Callable[[Builder, Tensor, tuple[int, ...], bool], Tensor]
"""(builder, data, axes, whether they stay) → the data reduced."""


def reduction(kind: str) -> Function:
    """An ONNX reduction."""
    return lambda g, x, axes, keepdims: in_int32(g, lambda x: g.reduce(kind, x, axes, keepdims=keepdims), x)


def _mean(g: Builder, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return the mean; of whole numbers truncated."""
    if is_float(x.dtype):
        return g.reduce("ReduceMean", x, axes, keepdims=keepdims)
    count = prod(g.static(x, axes)[axis] for axis in axes)
    return in_int32(g, lambda x: g.op("Div", g.reduce("ReduceSum", x, axes, keepdims=keepdims), count), x)


def _numbers(kind: str, instead: float) -> Function:
    """Return a reduction in which NaN counts as another number."""

    def function(g: Builder, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        if is_float(x.dtype):
            x = g.op("Where", g.op("IsNaN", x), g.constant(instead, x.dtype), x)
        return reduction(kind)(g, x, axes, keepdims)

    return function


FUNCTIONS: dict[str, Function] = {
    "sum": reduction("ReduceSum"),
    "prod": reduction("ReduceProd"),
    "mean": _mean,
    "max": reduction("ReduceMax"),
    "min": reduction("ReduceMin"),
    "nansum": _numbers("ReduceSum", 0),
    "nanprod": _numbers("ReduceProd", 1),
}


def reduce(g: Builder, function: Function, p: Any, data: Tensor) -> Tensor:
    """A reduction over the axes of parameters; where none is left, one of size 1 is."""
    axes = ops.reduced_axes(p, data.ndim)
    whole = len(axes) == data.ndim and not p.keepdims
    reduced = function(g, data, axes, whole or p.keepdims)
    return g.reshape(reduced, 1) if whole and data.ndim > 1 else reduced


def _register(name: str, function: Function) -> None:
    @onnx_form(name)
    def form(g: Builder, p: ops.ReduceParams, data: Tensor) -> Tensor:
        return reduce(g, function, p, data)


for _name, _function in FUNCTIONS.items():
    _register(_name, _function)


@onnx_form("norm")
def _norm(g: Builder, p: ops.NormParams, data: Tensor) -> Tensor:
    kind = "ReduceL1" if p.ord == 1 else "ReduceL2"
    wide = "float64" if data.dtype == "float64" else "float32"
    total = reduce(g, lambda g, x, axes, keepdims: g.reduce(kind, g.cast(x, wide), axes, keepdims=keepdims), p, data)
    return g.cast(total, g.outs[0].dtype)


def _search(g: Builder, kind: str, data: Tensor, axis: int | None) -> Tensor:
    x = data if axis is not None else g.reshape(data, -1)
    indices = g.op(kind, x, axis=axis or 0, keepdims=1)
    return g.reshape_as(g.cast(indices, data.dtype), g.outs[0])


@onnx_form("argmax")
def _argmax(g: Builder, p: ops.ReduceAxisParams, data: Tensor) -> Tensor:
    return _search(g, "ArgMax", data, p.axis)


@onnx_form("argmin")
def _argmin(g: Builder, p: ops.ReduceAxisParams, data: Tensor) -> Tensor:
    return _search(g, "ArgMin", data, p.axis)


@onnx_form("argmax_channel")
def _argmax_channel(g: Builder, p: Any, data: Tensor) -> Tensor:
    return _search(g, "ArgMax", data, 1)
