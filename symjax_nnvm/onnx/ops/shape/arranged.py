"""The ONNX form of what only arranges elements: a gather of their numbers, which NumPy arranges beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import Form, onnx_form
from symjax_nnvm.onnx.tensors import Tensor

Arrangement = Callable[[Any, np.ndarray], np.ndarray]
"""(parameters, the elements' numbers in the shape of data, from 1 on) → those of the result, 0 where it has none."""


def arranged(g: Builder, data: Tensor, numbers: np.ndarray, fill: float = 0) -> Tensor:
    """Return elements of a flat tensor by their numbers from 1 on, and a value where there is a 0."""
    gathered = g.op("Gather", data, np.asarray(np.maximum(numbers - 1, 0), np.int64), axis=0)
    return gathered if numbers.all() else g.op("Where", numbers > 0, gathered, g.constant(fill, data.dtype))


def _form(arrangement: Arrangement) -> Form:
    def form(g: Builder, p: Any, data: Tensor) -> Tensor:
        shape = g.static(data)
        numbers = np.arange(1, int(np.prod(shape, dtype=np.int64)) + 1).reshape(shape)
        return arranged(g, g.reshape(data, -1), arrangement(p, numbers), getattr(p, "constant_value", 0))

    return form


def arrangements(table: dict[str, Arrangement]) -> None:
    """Register forms, one row for each operator."""
    for name, arrangement in table.items():
        onnx_form(name)(_form(arrangement))
