"""Composer: what the forms of ONNX' operators make symbols with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from symjax_nnvm.errors import OnnxError, explain
from symjax_nnvm.io.symbol_json.json_reader import MAX_NAME
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.types import DType, is_known
from symjax_nnvm.onnx.imports.array_budget import Budget
from symjax_nnvm.onnx.imports.file_values import Numbers, Value, one
from symjax_nnvm.onnx.tensors import Sizes, numpy_dtype, unique
from symjax_nnvm.passes.infer import infer_shape, infer_type
from symjax_nnvm.symbol.operator_functions import function_named
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.symbol.variable import Variable

STATIC = "Give the sizes of its inputs: shapes={'data': (1, 3, 224, 224)}."
"""The way out where something must be known that open dimensions decide."""

WIDER = {"int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64"}
"""Dtypes that MXNet's files and casts lack, and the one that holds their numbers."""


def _onnxs(shape: Sequence[int], without_axes: bool) -> Numbers:
    """Return the shape that ONNX gives a result: MXNet's, but () for (1,) where no input has axes."""
    return () if without_axes and tuple(shape) == (1,) else tuple(shape)


@dataclass
class FileNode:
    """A node of the file, decoded. used: whether each output is read. asked: the attributes that its form has read."""

    kind: str = ""
    name: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    used: Sequence[bool] = ()
    asked: set[str] = field(default_factory=set)


class Composer:
    """The values read so far, and the node that is being read.

    opset: the file's. count: the number of assignments. arrays: weights by the names that they have in the network.
    reads: how often the file reads each tensor. body: (a graph inside the node, its inputs) → its outputs. of_sizes:
    what computes a value that follows from sizes which run time decides. budget: the budget of the arrays that are
    made; a form makes each array whose size comes from the file through `full` or `ask`.
    """

    def __init__(
        self,
        opset: int,
        count: int,
        reads: Counter[str],
        body: Callable[[Any, Sequence[Value]], list[Value]],
        of_sizes: Callable[[Composer, Value], Value],
        budget: Budget,
    ):
        self.opset, self.count, self.reads, self.body, self._of_sizes = opset, count, reads, body, of_sizes
        self._budget = budget
        self._inputs_with: dict[Sizes, list[Value]] = {}
        self._inputs_of_sizes: dict[tuple[Sizes, ...], tuple[Value, list[int]] | None] = {}
        self.node = FileNode()
        self.arrays: dict[str, np.ndarray] = {}
        self._variables: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._derived: dict[tuple[str, str], Value] = {}

    # -- the node ----------------------------------------------------------------------------------------------------

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute of the node: a number, text, a list of them, an array, a graph."""
        self.node.asked.add(name)
        return self.node.attrs.get(name, default)

    def used(self, output: int) -> bool:
        """Whether an output of the node is read."""
        return output < len(self.node.used) and self.node.used[output]

    def numbers(self, name: str, value: Value | None, default: Any = None) -> Any:
        """Return whole numbers that old opsets have in an attribute and later ones in an input."""
        if value is None:
            return self.attr(name, default)
        return [int(number) for number in self.constant_value(value, name).reshape(-1)]

    def constant_value(self, value: Value, what: str) -> np.ndarray:
        """The constant that an input must be. Raises OnnxError where run time decides."""
        if value.array is None:
            self.refuse(f"its {what} {value.name!r} must be known when the file is read", STATIC)
        return value.array

    def static(self, value: Value, axes: Sequence[int] | None = None) -> Numbers:
        """The shape, in numbers along some axes, default all; elsewhere what is open counts as 1."""
        needed_axes = range(value.ndim) if axes is None else [axis % value.ndim for axis in axes]
        unknown = [axis for axis in needed_axes if value.shape[axis] is None]
        if unknown:
            self.refuse(f"the size of axis {unknown[0]} of {value.name!r} must be known when the file is read", STATIC)
        return tuple(1 if size is None else size for size in value.shape)

    def axis(self, number: int, ndim: int) -> int:
        """An axis counted from the front. Raises OnnxError for one that is not there."""
        if not -max(ndim, 1) <= number < max(ndim, 1):
            self.refuse(f"there is no axis {number} of {ndim}")
        return number % max(ndim, 1)

    def reserve(self, *sizes: int, dtype: DType = "float32") -> None:
        """Reserve an array that is about to be made. Raises OnnxError where the file has made too many bytes."""
        try:
            self._budget.reserve(*sizes, itemsize=numpy_dtype(dtype).itemsize)
        except OnnxError as error:
            self.refuse(str(error))

    def full(self, sizes: Sequence[int], value: float, dtype: DType = "float32") -> np.ndarray:
        """Return an array filled with one number. Raises OnnxError if the file's budget of bytes is exceeded."""
        self.reserve(*sizes, dtype=dtype)
        return np.full(sizes, value, numpy_dtype(dtype))

    def refuse(self, reason: str, fix: str = "") -> NoReturn:
        """Raise OnnxError: the node cannot be read."""
        raise OnnxError(
            explain(f"{reason} (opset {self.opset})", op=self.node.kind, node=self.node.name, fix=fix or None)
        )

    # -- symbols -----------------------------------------------------------------------------------------------------

    def op(self, op: str, *values: Value, gives: DType | None = None, **params: Any) -> Value:
        """A node with one used output. gives: ONNX' dtype of the result, where it is not that of the symbol."""
        (value, *_) = self.ops(op, *values, gives=gives, **params)
        return value

    def ops(self, op: str, *values: Value, gives: DType | None = None, **params: Any) -> list[Value]:
        """The visible outputs of a node, with their shapes and dtypes inferred. Where no input has axes, a result of
        one element has none. Raises NNVMError."""
        if any(value is None for value in values):
            self.refuse("an input that it needs is missing")
        name = self._named(f"{self.node.name}_{op.strip('_').lower()}", self._nodes)
        symbol = function_named(op)(*(self.symbol(value) for value in values), name=name, **params)
        shapes, dtypes = self._inferred(symbol.outputs, values)
        without_axes = bool(values) and not any(value.ndim for value in values)
        return [
            Value(name, gives or dtype, [_onnxs(rows[i], without_axes) for rows in shapes], None, symbol[i], dtype)
            for i, dtype in enumerate(dtypes)
        ]

    def _inferred(self, outputs: list[NodeEntry], values: Sequence[Value]) -> tuple[list[list[Numbers]], list[DType]]:
        """Return the shapes of a node's outputs under each assignment, and their dtypes, of this node alone."""
        node = outputs[0].node
        probe = Node(node.attrs, [NodeEntry(create_variable_node(f"in{i}")) for i in range(len(values))])
        graph = Graph([NodeEntry(probe, entry.index) for entry in outputs])
        entries = slice(len(values), len(values) + len(outputs))
        dtypes = infer_type(graph, dtypes=[value.held for value in values], attr_key=None).attrs["dtype"][entries]
        by_arguments: dict[tuple[Numbers, ...], list[Numbers]] = {}
        argument_shapes = [tuple(value.symbol_shapes[i] for value in values) for i in range(self.count)]
        for shapes in dict.fromkeys(argument_shapes):
            inferred = infer_shape(graph, shapes=shapes, attr_key=None).attrs["shape"][entries]
            if not all(map(is_known, inferred)):
                self.refuse("the shape of its result is unknown", STATIC)
            by_arguments[shapes] = list(inferred)
        return [by_arguments[shapes] for shapes in argument_shapes], [dtype or "float32" for dtype in dtypes]

    def symbol(self, value: Value) -> Symbol:
        """The symbol that computes a value; a constant is a variable of its name. Raises OnnxError for what follows in
        no simple way from sizes that run time decides."""
        if value.symbol is None:
            array = value.array
            if array is None:
                symbol = self._of_sizes(self, value)
                value.symbol, value.held = self.symbol(symbol), symbol.held
            else:
                self._store(value, array, value.name)
        assert value.symbol is not None
        return value.symbol

    def _store(self, value: Value, array: np.ndarray, name: str) -> None:
        """Make a constant a weight, of one axis at least. A constant of the file's graph gets multipliers of 0, so that
        no optimiser changes it."""
        name = self._named(name, self._variables)
        array = array.reshape(array.shape or (1,))
        dtype = WIDER.get(array.dtype.name, array.dtype.name)
        if dtype != array.dtype.name or not array.flags.aligned:
            self.reserve(*array.shape, dtype=dtype)
            array = array.astype(dtype)
        share = 0.0 if value.in_graph else None
        value.held = array.dtype.name
        dtype = None if value.held == "float32" else value.held
        value.symbol = Variable(name, shape=array.shape, dtype=dtype, lr_mult=share, wd_mult=share)
        self.arrays[name] = array

    def input(self, name: str, dtype: DType, shapes: Sequence[Numbers]) -> Value:
        """An input of the network."""
        variable = Variable(self._named(name, self._variables), dtype=None if dtype == "float32" else dtype)
        value = Value(name, dtype, shapes, None, variable, dtype)
        for size in dict.fromkeys(value.sizes):
            self._inputs_with.setdefault(size, []).append(value)
        return value

    def input_with(self, sizes: tuple[Sizes, ...]) -> tuple[Value, list[int]] | None:
        """An input that has some sizes in their order, and along which axes; None where none has. It may be called for
        each node of a file, so it must not read each input."""
        if sizes not in self._inputs_of_sizes:
            rarest = min((self._inputs_with.get(size, []) for size in sizes), key=len)
            rows = ((x, [x.sizes.index(size) for size in sizes if size in x.sizes]) for x in rarest)
            fitting = ((x, axes) for x, axes in rows if len(axes) == len(sizes) and axes == sorted(set(axes)))
            self._inputs_of_sizes[sizes] = next(fitting, None)
        return self._inputs_of_sizes[sizes]

    def state(self, value: Value, name: str) -> Value:
        """A constant as an auxiliary state: the node needs a variable of its own."""
        if self.reads[value.name] == 1:
            return value
        array = self.constant_value(value, name)
        state = Value(f"{self.node.name}_{name}", value.dtype, [array.shape] * self.count, [array] * self.count)
        return state

    def constant(self, array: Any, dtype: DType | None = None, name: str = "constant") -> Value:
        """A constant that the file lacks. array: it is copied if its dtype is another."""
        array = np.asarray(array)
        if dtype is not None and array.dtype.name != dtype:
            self.reserve(*array.shape, dtype=dtype)
            array = array.astype(numpy_dtype(dtype))
        label = f"{self.node.name}_{name}"
        return Value(label, array.dtype.name, [array.shape] * self.count, [array] * self.count, in_graph=True)

    def weight(self, value: Value, array: np.ndarray, how: str) -> Value:
        """A weight of the file laid out anew: under its own name where no other node reads it. how: a word for the
        layout; two calls with the same word share one weight."""
        key = (value.name, how)
        if key not in self._derived:
            read_once = self.reads[value.name] == 1
            self._derived[key] = self.like(
                value, [array] * self.count, value.name if read_once else f"{value.name}_{how}"
            )
        return self._derived[key]

    def like(self, value: Value, arrays: Sequence[np.ndarray], name: str) -> Value:
        """A constant made of another."""
        arrays = one(arrays)
        return Value(name, arrays[0].dtype.name, [array.shape for array in arrays], arrays, in_graph=value.in_graph)

    # -- names -------------------------------------------------------------------------------------------------------

    def begin(self, node: FileNode) -> int:
        """Read a node; how many nodes the network has."""
        self.node = node
        return len(self._nodes)

    def christen(self, values: Sequence[Value], fresh: int) -> None:
        """Give the node that the file's node became, if it became one, its name."""
        symbol = next((value.symbol for value in values if value.symbol is not None), None)
        if symbol is None or len(self._nodes) == fresh or symbol.outputs[0].node.is_variable:
            return
        symbol.outputs[0].node.attrs.name = self._named(self.node.name, self._nodes)

    def _named(self, name: str, taken: dict[str, int]) -> str:
        """Return a name that is not taken. Raises OnnxError for one that is too long for a symbol's file."""
        if len(name) > MAX_NAME:
            self.refuse(f"a name has {len(name)} characters, more than {MAX_NAME}")
        return unique(name, taken)
