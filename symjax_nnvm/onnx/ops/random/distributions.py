"""ONNX forms of random draws: uniform and normal numbers, which runtimes draw themselves; others are refused."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.random import distributions as ops

_DRAWN = {"uniform": ("RandomUniform", "low", "high"), "normal": ("RandomNormal", "mean", "scale")}
"""Distribution → (ONNX' operator, its attributes in the order of MXNet's parameters)."""


def drawn(g: Builder, name: str, first: float, second: float) -> Tensor:
    """Return numbers in the shape and dtype of the output; ONNX draws float32."""
    kind, *names = _DRAWN[name]
    shape = list(g.static(g.outs[0]))
    numbers: dict[str, Any] = dict(zip(names, (first, second), strict=True))
    return g.cast(g.op(kind, shape=shape, **numbers), g.outs[0].dtype)


@onnx_form("_random_uniform", "_random_uniform_like")
def _uniform(g: Builder, p: Any, *like: Tensor) -> Tensor:
    return drawn(g, "uniform", p.low, p.high)


@onnx_form("_random_normal", "_random_normal_like")
def _normal(g: Builder, p: Any, *like: Tensor) -> Tensor:
    return drawn(g, "normal", p.loc, p.scale)


def _aligned(g: Builder, p: ops.SampleParams, parameter: Tensor) -> Tensor:
    """Return a parameter [s], shaped to be broadcast over draws [s]x[t], in the dtype of the output."""
    ndim = parameter.ndim
    return g.cast(g.unsqueeze(parameter, *range(ndim, ndim + len(p.shape))), g.outs[0].dtype)


@onnx_form("_sample_uniform")
def _sample_uniform(g: Builder, p: ops.SampleParams, low: Tensor, high: Tensor) -> Tensor:
    low, high = _aligned(g, p, low), _aligned(g, p, high)
    return g.op("Add", g.op("Mul", drawn(g, "uniform", 0.0, 1.0), g.op("Sub", high, low)), low)


@onnx_form("_sample_normal")
def _sample_normal(g: Builder, p: ops.SampleParams, mu: Tensor, sigma: Tensor) -> Tensor:
    return g.op("Add", g.op("Mul", drawn(g, "normal", 0.0, 1.0), _aligned(g, p, sigma)), _aligned(g, p, mu))


ONLY = "ONNX can draw only uniform and normal numbers"
FIX = "Draw the numbers outside, and make them an input of the network."
refuses(
    *(f"_random_{row.name}" for row in ops.DISTRIBUTIONS if row.name not in _DRAWN),
    *(f"_random_{row.name}_like" for row in ops.DISTRIBUTIONS if row.name not in _DRAWN),
    *(f"_sample_{row.name}" for row in ops.DISTRIBUTIONS if row.name not in _DRAWN),
    "_random_randint",
    reason=ONLY,
    fix=FIX,
)
