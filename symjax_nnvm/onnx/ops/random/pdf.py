"""ONNX forms of the densities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.numbers import wide
from symjax_nnvm.onnx.ops.elementwise.unary import gammaln, log1p
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.random import pdf as ops

Formula = Callable[..., Tensor]
"""(builder, sample x, *parameters that broadcast against it) → log p."""


def _sum(g: Builder, *terms: Tensor) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = g.op("Add", total, term)
    return total


def _minus(g: Builder, x: Tensor, *others: Tensor) -> Tensor:
    for other in others:
        x = g.op("Sub", x, other)
    return x


def _xlogy(g: Builder, x: Tensor, y: Tensor) -> Tensor:
    """Return x log y, and 0 where x is 0."""
    none = g.op("Equal", x, 0.0)
    return g.op("Where", none, g.constant(0, x.dtype), g.op("Mul", x, g.op("Log", y)))


def _less_one(g: Builder, x: Tensor) -> Tensor:
    return g.op("Sub", x, 1.0)


def _choices(g: Builder, x: Tensor, k: Tensor) -> Tensor:
    """Return log (Γ(x + k) / (x! Γ(k)))."""
    return _minus(g, gammaln(g, g.op("Add", x, k)), gammaln(g, g.op("Add", x, 1.0)), gammaln(g, k))


def _exponential(g: Builder, x: Tensor, lam: Tensor) -> Tensor:
    return _minus(g, g.op("Log", lam), g.op("Mul", lam, x))


def _gamma(g: Builder, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    powers = _sum(g, _xlogy(g, alpha, beta), _xlogy(g, _less_one(g, alpha), x))
    return _minus(g, powers, g.op("Mul", beta, x), gammaln(g, alpha))


def _generalized_negative_binomial(g: Builder, x: Tensor, mu: Tensor, alpha: Tensor) -> Tensor:
    k, product = g.op("Reciprocal", alpha), g.op("Mul", alpha, mu)
    share = g.op("Div", product, g.op("Add", product, 1.0))
    return _sum(g, _minus(g, _choices(g, x, k), g.op("Mul", k, log1p(g, product))), _xlogy(g, x, share))


def _negative_binomial(g: Builder, x: Tensor, k: Tensor, p: Tensor) -> Tensor:
    failure = g.op("Sub", g.constant(1, p.dtype), p)
    return _sum(g, _choices(g, x, k), _xlogy(g, k, p), _xlogy(g, x, failure))


def _normal(g: Builder, x: Tensor, mu: Tensor, sigma: Tensor) -> Tensor:
    distance = g.op("Div", g.op("Sub", x, mu), sigma)
    square = g.op("Mul", g.op("Mul", distance, distance), -0.5)
    return g.op("Sub", g.op("Sub", square, g.op("Log", sigma)), 0.5 * math.log(2 * math.pi))


def _poisson(g: Builder, x: Tensor, lam: Tensor) -> Tensor:
    return _minus(g, _xlogy(g, x, lam), lam, gammaln(g, g.op("Add", x, 1.0)))


def _uniform(g: Builder, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return g.op("Expand", g.op("Neg", g.op("Log", g.op("Sub", high, low))), g.op("Shape", x))


def _dirichlet(g: Builder, x: Tensor, alpha: Tensor) -> Tensor:
    of_each = _minus(g, _xlogy(g, _less_one(g, alpha), x), gammaln(g, alpha))
    total = gammaln(g, g.op("ReduceSum", alpha, [-1], keepdims=0))
    return g.reshape_as(g.op("Add", g.op("ReduceSum", of_each, [-1], keepdims=0), total), g.outs[0])


LOG_DENSITIES: dict[str, Formula] = {
    "dirichlet": _dirichlet,
    "exponential": _exponential,
    "gamma": _gamma,
    "generalized_negative_binomial": _generalized_negative_binomial,
    "negative_binomial": _negative_binomial,
    "normal": _normal,
    "poisson": _poisson,
    "uniform": _uniform,
}


def _aligned(g: Builder, row: ops.Density, parameter: Tensor, sample: Tensor) -> Tensor:
    """Return parameters [s]x[e] as [s]x1x[e], which broadcasts against a sample [s]x[t]x[e]."""
    split = parameter.ndim - row.event_axes
    return g.unsqueeze(parameter, *range(split, split + sample.ndim - parameter.ndim))


def _register(row: ops.Density, formula: Formula) -> None:
    @onnx_form(f"_random_pdf_{row.name}")
    def form(g: Builder, p: Any, sample: Tensor, *parameters: Tensor) -> Tensor:
        aligned = [_aligned(g, row, parameter, sample) for parameter in parameters]

        def function(x: Tensor, *others: Tensor) -> Tensor:
            value = formula(g, x, *others)
            return value if p.is_log else g.op("Exp", value)

        return wide(g, function, sample, *aligned)


for _row in ops.DENSITIES:
    _register(_row, LOG_DENSITIES[_row.name])

refuses(
    "_repeat_over_samples", reason="it is part of a gradient, and a file holds what a network computes at inference"
)
