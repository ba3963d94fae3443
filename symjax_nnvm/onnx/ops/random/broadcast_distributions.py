"""ONNX forms of the NumPy dialect's draws: uniform and normal numbers; others are refused."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.ops.random.distributions import FIX, ONLY, drawn
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.random import broadcast_distributions as ops


def _parameters(g: Builder, row: ops.BroadcastDistribution, p: Any, arrays: tuple[Tensor, ...]) -> list[Tensor]:
    """Return the parameters as tensors of the output's dtype."""
    remaining = iter(arrays)
    dtype = g.outs[0].dtype
    numbers = (getattr(p, name) for name in row.arrays)
    return [g.cast(next(remaining), dtype) if number is None else g.constant(number, dtype) for number in numbers]


def _write(row: ops.BroadcastDistribution) -> None:
    is_uniform = "low" in row.arrays

    @onnx_form(row.name)
    def form(g: Builder, p: Any, *arrays: Tensor) -> Tensor:
        first, second = _parameters(g, row, p, arrays)
        numbers = drawn(g, "uniform" if is_uniform else "normal", 0.0, 1.0)
        scale = g.op("Sub", second, first) if is_uniform else second
        return g.op("Add", g.op("Mul", numbers, scale), first)


_WRITTEN = ("_npi_normal", "_npi_normal_n", "_npi_uniform", "_npi_uniform_n")

for _row in ops.DISTRIBUTIONS:
    if _row.name in _WRITTEN:
        _write(_row)

refuses(
    *(row.name for row in ops.DISTRIBUTIONS if row.name not in _WRITTEN),
    "_npi_bernoulli",
    "_npi_choice",
    "_npi_multinomial",
    reason=ONLY,
    fix=FIX,
)
