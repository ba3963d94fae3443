"""What the forms of 8-bit networks share: ranges, and floats as levels and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from symjax_nnvm.ir.types import DType
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.quantization.ranges import LEVELS, CalibratedParams

Range = tuple[Tensor, Tensor]
INT32_LEVELS = 2.0**31


def ends(g: Builder, low: float, high: float) -> Range:
    """Two numbers as a range."""
    return g.constant([low], "float32"), g.constant([high], "float32")


def calibrated(g: Builder, p: Any) -> Range:
    """The calibrated range of a node that has one."""
    return ends(g, p.min_calib_range, p.max_calib_range)


def range_of(g: Builder, p: CalibratedParams, data: Tensor) -> Range:
    """The calibrated range, else that of data, (1,) each."""
    if p.is_calibrated:
        return calibrated(g, p)
    low, high = (g.op(f"Reduce{kind}", data, keepdims=0) for kind in ("Min", "Max"))
    return g.reshape(low, 1), g.reshape(high, 1)


def magnitude(g: Builder, both: Range) -> Tensor:
    """The greatest magnitude of a range, a number without axes."""
    if both[0].value is not None and both[1].value is not None:
        return g.constant(np.maximum(abs(both[0].value), abs(both[1].value)).reshape(()), "float32")
    return g.reshape(g.op("Max", *(g.op("Abs", end) for end in both)))


def symmetric(g: Builder, real: Tensor) -> Range:
    """The range (-m, m)."""
    if real.value is not None:
        return ends(g, -float(real.value), float(real.value))
    high = g.reshape(real, 1)
    return g.op("Neg", high), high


def as_numbers(g: Builder, data: Tensor, real: Tensor) -> Tensor:
    """Levels as floats."""
    scale = g.op("Div", real, LEVELS[data.dtype])
    # By session.x64quantprecision onnxruntime fails where parameters share a zero point, which QGemm needs.
    zero = g.constant(0, data.dtype) if data.value is None else g.cast(g.op("Mul", scale, 0.0), data.dtype)
    numbers = g.op("DequantizeLinear", data, scale, zero, dtype="float32")
    numbers.shapes = data.shapes
    return numbers


def as_levels(g: Builder, data: Tensor, real: Tensor, dtype: DType, greatest: float | None = None) -> Tensor:
    """Floats as levels, the greatest of which stands for a number."""
    scale = g.op("Div", real, greatest or LEVELS[dtype])
    return g.op("QuantizeLinear", data, scale, g.constant(0, dtype), dtype=dtype)


def sums_range(g: Builder, data: Tensor, weight: Tensor, is_signed: bool) -> Range:
    """The range that int32 stands for in sums of products, of the magnitudes of both factors."""
    level = g.op("Div", g.op("Mul", data, weight), 127.0 * (127.0 if is_signed else 255.0))
    return symmetric(g, g.op("Mul", level, INT32_LEVELS))
