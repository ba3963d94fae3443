"""ONNX forms of the operators that cut, reverse and pad."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.shape import slice as ops

FAR = 2**31 - 1
"""An end that no axis reaches: ONNX takes it for the axis' own."""


@onnx_form("slice_axis")
def _slice_axis(g: Builder, p: ops.SliceAxisParams, data: Tensor) -> Tensor:
    return g.slice(data, p.axis, p.begin, FAR if p.end is None else p.end)


@onnx_form("slice")
def _slice(g: Builder, p: ops.SliceParams, data: Tensor) -> Tensor:
    rows = [
        (i, _end(begin, -step), _end(end, step), step)
        for i, (begin, end, step) in enumerate(zip(p.begin, p.end, p.steps, strict=True))
        if not (p.is_whole(i) and step == 1)
    ]
    if not rows:
        return data
    axes, begins, ends, steps = (list(column) for column in zip(*rows, strict=True))
    return g.op("Slice", data, begins, ends, axes, steps)


def _end(index: int | None, step: int) -> int:
    """Return an index, or, where there is none, one beyond the end that steps lead to."""
    return index if index is not None else FAR if step > 0 else -FAR


@onnx_form("slice_like")
def _slice_like(g: Builder, p: ops.SliceLikeParams, data: Tensor, like: Tensor) -> Tensor:
    out = g.outs[0]
    axes = [i for i in range(data.ndim) if out.sizes[i] != data.sizes[i]]
    if not axes:
        return data
    return g.op("Slice", data, [0] * len(axes), g.sizes([out.sizes[i] for i in axes]), axes)


@onnx_form("reverse", "_npi_flip")
def _reverse(g: Builder, p: ops.ReverseParams | ops.FlipParams, data: Tensor) -> Tensor:
    axes = list(p.turned(data.ndim))
    if not axes:
        return data
    count = len(axes)
    return g.op("Slice", data, [-1] * count, [-FAR] * count, axes, [-1] * count)


@onnx_form("Pad")
def _pad(g: Builder, p: ops.PadParams, data: Tensor) -> Tensor:
    before, after = ([width[i] for width in p.widths] for i in (0, 1))
    value: Any = g.constant(p.constant_value, data.dtype) if p.mode == "constant" else None
    return g.op("Pad", data, [*before, *after], value, mode=p.mode)
