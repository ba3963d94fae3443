"""Constants of a file: nodes of which every input is known are computed, by ONNX' own reference implementation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symjax_nnvm.errors import OnnxError

Arrays = Sequence[np.ndarray | None]

BUDGET = 2**28
"""Bytes that the constants of one file may take beside its weights."""

FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
    OSError,
)
"""What the package onnx raises of what it cannot read or compute."""

_SHRINK = frozenset(
    {
        *("Abs", "ArgMax", "ArgMin", "Cast", "Ceil", "Clip", "Concat", "Cos", "CumSum", "DepthToSpace"),
        *("DequantizeLinear", "Exp", "Flatten", "Floor", "Identity", "IsNaN", "Log", "Neg", "Not", "Reciprocal"),
        *("ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Relu", "Reshape", "Round"),
        *("Sigmoid", "Sign", "Sin", "Slice", "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Tanh", "Transpose", "Trilu"),
        "Unsqueeze",
    }
)
"""Operators whose results have no more elements than their inputs together."""

_BROADCAST = frozenset(
    {
        *("Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min"),
        *("Mod", "Mul", "Or", "Pow", "Sub", "Sum", "Where", "Xor"),
    }
)


def _shape(array: np.ndarray) -> tuple[int, ...]:
    return tuple(int(size) for size in array.reshape(-1))


def _pieces(inputs: Arrays, attrs: Mapping[str, Any]) -> int:
    """Elements of Gather's result."""
    data, indices = inputs[0], inputs[1]
    assert data is not None
    assert indices is not None
    return data.size // max(data.shape[attrs.get("axis", 0)], 1) * indices.size


def _counted(inputs: Arrays, attrs: Mapping[str, Any]) -> int:
    start, limit, step = (float(np.asarray(each).item()) for each in inputs)
    return max(math.ceil((limit - start) / step), 0)


_GROW: dict[str, Callable[[Any, Mapping[str, Any]], int]] = {
    "ConstantOfShape": lambda inputs, attrs: math.prod(_shape(inputs[0])),
    "Expand": lambda inputs, attrs: math.prod(np.broadcast_shapes(inputs[0].shape, _shape(inputs[1]))),
    "Gather": _pieces,
    "GatherElements": lambda inputs, attrs: inputs[1].size,
    "MatMul": lambda inputs, attrs: inputs[0].size * inputs[1].size,
    "OneHot": lambda inputs, attrs: inputs[0].size * int(np.asarray(inputs[1]).item()),
    "Pad": lambda inputs, attrs: math.prod(
        size + before + after
        for size, before, after in zip(
            inputs[0].shape, inputs[1][: inputs[0].ndim].tolist(), inputs[1][inputs[0].ndim :].tolist(), strict=True
        )
    ),
    "Range": _counted,
    "ScatterND": lambda inputs, attrs: inputs[0].size,
    "Tile": lambda inputs, attrs: inputs[0].size * math.prod(_shape(inputs[1])),
}
"""Operator → elements of its result, before it is computed: a number in a file must not decide what memory is taken."""


def _elements(kind: str, inputs: Arrays, attrs: Mapping[str, Any]) -> int:
    """How many elements the result of a node may have, at most."""
    if kind in _GROW:
        return _GROW[kind](inputs, attrs)
    given = [each for each in inputs if each is not None]
    total = sum(each.size for each in given)
    if kind in _BROADCAST:
        return max(total, math.prod(np.broadcast_shapes(*(each.shape for each in given))))
    return total


def is_computed(kind: str) -> bool:
    """Whether a node of known inputs is computed when the file is read."""
    return kind in _SHRINK or kind in _BROADCAST or kind in _GROW


class Evaluator:
    """Computes nodes, within a budget of memory."""

    def __init__(self, onnx: Any, opset: int):
        self._onnx, self._opset, self._left = onnx, opset, BUDGET

    def __call__(self, node: Any, attrs: Mapping[str, Any], inputs: Arrays) -> list[np.ndarray]:
        """The outputs of a node of the file. Raises OnnxError."""
        from onnx.reference import ReferenceEvaluator

        feeds = {name: array for name, array in zip(node.input, inputs, strict=True) if name}
        try:
            self._left -= 8 * _elements(node.op_type, inputs, attrs)
            if self._left < 0:
                raise OnnxError(f"its constants would take more than {BUDGET} bytes")
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = ReferenceEvaluator(node, opsets={"": self._opset}).run(None, feeds)
        except FAILURES as error:
            raise OnnxError(f"it cannot be computed: {error}") from error
        return [np.asarray(each) for each in found]
