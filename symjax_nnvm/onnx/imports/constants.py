"""Constants of a file: nodes whose inputs are all known are computed, by ONNX' own reference implementation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symjax_nnvm.errors import OnnxError
from symjax_nnvm.ir.types import MAX_RANK
from symjax_nnvm.onnx.imports.array_budget import Budget
from symjax_nnvm.onnx.imports.failures import OF_ONNX, first_line
from symjax_nnvm.onnx.proto import import_onnx

Arrays = Sequence[np.ndarray | None]

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

Sizes = tuple[int, ...]


def _shape(array: np.ndarray) -> Sizes:
    if array.size > MAX_RANK:
        raise OnnxError(f"it makes an array of {array.size} axes, more than {MAX_RANK}")
    return tuple(int(size) for size in array.reshape(-1))


def _pieces(inputs: Any, attrs: Mapping[str, Any]) -> Sizes:
    """Return Gather's result: as many pieces of the data as there are indices."""
    data, indices = inputs
    return data.size // max(data.shape[attrs.get("axis", 0)], 1), indices.size


def _counted(inputs: Any, attrs: Mapping[str, Any]) -> Sizes:
    start, limit, step = (float(np.asarray(number).item()) for number in inputs)
    return (max(math.ceil((limit - start) / step), 0),)


def _padded(inputs: Any, attrs: Mapping[str, Any]) -> Sizes:
    data = inputs[0]
    pads = _shape(inputs[1]) if len(inputs) > 1 else attrs["pads"]
    axes = _shape(inputs[3]) if len(inputs) > 3 and inputs[3] is not None else range(data.ndim)
    sizes = list(data.shape)
    for i, axis in enumerate(axes):
        sizes[axis] += max(pads[i], 0) + max(pads[i + len(axes)], 0)
    return tuple(sizes)


def _product(inputs: Any, attrs: Mapping[str, Any]) -> Sizes:
    """Return the result, and no less than what is read, so that it is not computed again and again."""
    a, b = inputs
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, columns = (a.shape[-2:-1] if a.ndim > 1 else ()), (b.shape[-1:] if b.ndim > 1 else ())
    return (max(math.prod((*lead, *rows, *columns)), a.size + b.size),)


_GROW: dict[str, Callable[[Any, Mapping[str, Any]], Sizes]] = {
    "ConstantOfShape": lambda inputs, attrs: _shape(inputs[0]),
    "Expand": lambda inputs, attrs: np.broadcast_shapes(inputs[0].shape, _shape(inputs[1])),
    "Gather": _pieces,
    "GatherElements": lambda inputs, attrs: inputs[1].shape,
    "MatMul": _product,
    "OneHot": lambda inputs, attrs: (inputs[0].size, int(np.asarray(inputs[1]).item())),
    "Pad": _padded,
    "Range": _counted,
    "ScatterND": lambda inputs, attrs: inputs[0].shape,
    "Tile": lambda inputs, attrs: (inputs[0].size, *_shape(inputs[1])),
}
"""Operator → sizes of its result, before it is computed."""


def _sizes(kind: str, inputs: Arrays, attrs: Mapping[str, Any]) -> Sizes:
    """Return the sizes of a node's result, whose product is the most that it can have."""
    if kind in _GROW:
        return _GROW[kind](inputs, attrs)
    values = [value for value in inputs if value is not None]
    total = sum(value.size for value in values)
    if kind in _BROADCAST:
        return (max(total, math.prod(np.broadcast_shapes(*(value.shape for value in values)))),)
    return (total,)


_IMPLEMENTED_FROM = {"DequantizeLinear": 19}
"""Operators that the reference implementation has only of later opsets, which compute the same of what older ones
have."""


def is_computed(kind: str) -> bool:
    """Whether a node of known inputs is computed when the file is read."""
    return kind in _SHRINK or kind in _BROADCAST or kind in _GROW


class ConstantEvaluator:
    """Computes nodes of a file, within its budget."""

    def __init__(self, opset: int, budget: Budget):
        self._opset, self._budget = opset, budget

    def __call__(self, node: Any, attrs: Mapping[str, Any], inputs: Arrays) -> list[np.ndarray]:
        """The outputs of a node of known inputs. Raises OnnxError, and what its sizes raise where it is malformed."""
        self._budget.reserve(*_sizes(node.op_type, inputs, attrs))
        if node.op_type == "OneHot":  # its depth may be a list of one, which the reference implementation cannot read
            inputs = [
                None if value is None else value.reshape(()) if i == 1 else value for i, value in enumerate(inputs)
            ]
        return reference(node, max(self._opset, _IMPLEMENTED_FROM.get(node.op_type, 0)), inputs)


def reference(node: Any, opset: int, inputs: Arrays) -> list[np.ndarray]:
    """The outputs of a node by onnx' reference implementation; its result must have been reserved. Raises OnnxError."""
    helper = import_onnx().helper
    from onnx.reference import ReferenceEvaluator

    feeds = {name: array for name, array in zip(node.input, inputs, strict=True) if name}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            ins, outs = (
                [helper.make_empty_tensor_value_info(name) for name in names] for names in (feeds, node.output)
            )
            graph = helper.make_graph([node], "one_node", ins, outs)  # a bare node is taken for one of the latest opset
            outputs: Any = ReferenceEvaluator(graph, opsets={"": opset}).run(None, feeds)
            return [np.asarray(output) for output in outputs]
    except OF_ONNX as error:
        raise OnnxError(f"it cannot be computed: {first_line(error)}") from error
