"""ONNX' reductions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import import_table

Reduce = Callable[[Composer, Value, dict[str, Any]], Value]


def _reduction(function: Reduce, alone: str | None = None) -> Callable[..., Value]:
    """Register a reduction. alone: the operator for elements where nothing is reduced; None: none."""

    def form(g: Composer, x: Value, axes: Value | None = None) -> Value:
        """Axes are an attribute or, later, an input; without any all are reduced, or none with noop_with_empty_axes."""
        axis_numbers, nothing, keep = (
            g.numbers("axes", axes),
            g.attr("noop_with_empty_axes", 0),
            bool(g.attr("keepdims", 1)),
        )
        if not axis_numbers and nothing:
            return x if alone is None else g.op(alone, x)
        places = sorted({g.axis(axis, x.ndim) for axis in axis_numbers or range(x.ndim)})
        if not x.ndim:
            return function(g, x, {"axis": (0,), "keepdims": True})
        reduced = function(g, x, {"axis": tuple(places), "keepdims": keep})
        shapes = [
            tuple(1 if k in places else size for k, size in enumerate(shape) if keep or k not in places)
            for shape in x.shapes
        ]
        return Value(reduced.name, x.dtype, shapes, None, reduced.symbol, reduced.held)

    return form


def _named(op: str, **more: Any) -> Reduce:
    return lambda g, x, how: g.op(op, x, **how, **more)


def _log_sum_exp(g: Composer, x: Value, how: dict[str, Any]) -> Value:
    """m + log Σ eˣ⁻ᵐ, m the largest: no power is too large. Where that is infinite m is 0."""
    powers = g.op("exp", g.op("broadcast_sub", x, _largest(g, x, {**how, "keepdims": True})))
    return g.op("elemwise_add", g.op("log", g.op("sum", powers, **how)), _largest(g, x, how))


def _largest(g: Composer, x: Value, how: dict[str, Any]) -> Value:
    most = g.op("max", x, **how)
    infinite = g.op("_equal_scalar", g.op("abs", most), scalar=math.inf)
    return g.op("where", infinite, g.op("zeros_like", most), most)


import_table(
    {
        "ReduceL1": _reduction(_named("norm", ord=1), "abs"),
        "ReduceL2": _reduction(_named("norm", ord=2), "abs"),
        "ReduceLogSum": _reduction(lambda g, x, how: g.op("log", g.op("sum", x, **how)), "log"),
        "ReduceLogSumExp": _reduction(_log_sum_exp),
        "ReduceMax": _reduction(_named("max")),
        "ReduceMean": _reduction(_named("mean")),
        "ReduceMin": _reduction(_named("min")),
        "ReduceProd": _reduction(_named("prod")),
        "ReduceSum": _reduction(_named("sum")),
        "ReduceSumSquare": _reduction(lambda g, x, how: g.op("sum", g.op("square", x), **how), "square"),
    }
)
