"""ONNX forms of Pooling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.nn.convolution import channels_first, inverse
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import pooling as ops


@onnx_form("Pooling")
def _pooling(g: Builder, p: ops.PoolingParams, data: Tensor) -> Tensor:
    order = channels_first(p.layout) if p.layout else list(range(data.ndim))
    return g.transpose(pool(g, p, g.transpose(data, order)), inverse(order))


def pool(g: Builder, p: ops.PoolingParams, x: Tensor) -> Tensor:
    """The windows of x (n, c, …d) pooled."""
    return (_pool_all if p.global_pool else _pool_windows)(g, p, x)


def _pool_all(g: Builder, p: ops.PoolingParams, x: Tensor) -> Tensor:
    axes = list(range(2, x.ndim))
    match p.pool_type:
        case "max":
            return g.op("GlobalMaxPool", x)
        case "avg":
            return g.op("GlobalAveragePool", x)
    return _norm(g, p, x, lambda x: g.op("ReduceSum", x, axes, keepdims=1))


def _norm(g: Builder, p: ops.PoolingParams, x: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the p-th root of the sum of p-th powers; plain sums, where the type is sum, or p is 1."""
    if p.pool_type == "sum" or p.p_value == 1:
        return total(x)
    square = g.op("Mul", x, x)
    if p.p_value == 2:
        return g.op("Sqrt", total(square))
    cubes = total(g.op("Mul", square, x))
    return g.op("Mul", g.op("Sign", cubes), g.op("Pow", g.op("Abs", cubes), 1 / 3))


def _pool_windows(g: Builder, p: ops.PoolingParams, x: Tensor) -> Tensor:
    rank = len(p.kernel)
    pads = list(p.pad) if any(p.pad) else [0] * rank
    ends = pads if p.pooling_convention == "valid" else _ends(g, p, x)
    attrs: dict[str, Any] = {"kernel_shape": list(p.kernel), "strides": list(p.stride or (1,) * rank)}
    if p.pool_type == "max":
        x, attrs["pads"] = _margins(g, x, pads, ends, p.kernel, -math.inf)
        return g.op("MaxPool", x, **attrs)
    include = p.count_include_pad is not False
    if p.pool_type == "avg" and (not include or all(end <= pad for pad, end in zip(pads, ends, strict=True))):
        if not include:
            return g.op("AveragePool", x, count_include_pad=0, pads=[*pads, *ends], **attrs)
        x, attrs["pads"] = _margins(g, x, pads, ends, p.kernel, 0.0)
        return g.op("AveragePool", x, count_include_pad=1, **attrs)
    x_all, attrs["pads"] = _margins(g, x, pads, ends, p.kernel, 0.0)
    size = float(math.prod(p.kernel))

    def total(x: Tensor) -> Tensor:
        return g.op("Mul", g.op("AveragePool", x, count_include_pad=1, **attrs), size)

    if p.pool_type != "avg":
        return _norm(g, p, x_all, total)
    divisors = ops.divisors(p, ops.windows(p, g.static(x, range(2, x.ndim))))
    return g.op("Div", total(x_all), g.constant(divisors, x.dtype))


def _ends(g: Builder, p: ops.PoolingParams, x: Tensor) -> list[int]:
    """Return how far the last windows reach past the data; 0 where they end within it."""
    return [max(over, 0) for over in ops.windows(p, g.static(x, range(2, x.ndim))).overhangs]


def _margins(
    g: Builder, x: Tensor, pads: list[int], ends: list[int], kernel: tuple[int, ...], value: float
) -> tuple[Tensor, list[int] | None]:
    """(data, attribute `pads`): a window may not be in padding alone; such padding becomes part of the data."""
    if all(margin < k for margin, k in zip((*pads, *ends), (*kernel, *kernel), strict=True)):
        return x, [*pads, *ends]
    return g.pad(x, [0, 0, *pads], [0, 0, *ends], value), None
