"""The nodes of an ONNX graph, in order: computed where all inputs are known, else composed by their forms."""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from symjax_nnvm.errors import NNVMError, OnnxError, cut, explain, printable
from symjax_nnvm.onnx.imports.array_budget import Budget
from symjax_nnvm.onnx.imports.composer import Composer, FileNode
from symjax_nnvm.onnx.imports.constants import ConstantEvaluator, is_computed
from symjax_nnvm.onnx.imports.failures import OF_FORMS, first_line
from symjax_nnvm.onnx.imports.file_tensors import Weights
from symjax_nnvm.onnx.imports.file_values import Numbers, Value, one
from symjax_nnvm.onnx.imports.import_registry import import_of, input_problem
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import entering, leaving, of_sizes
from symjax_nnvm.onnx.imports.reading import defaults
from symjax_nnvm.symbol.symbol import Symbol

if TYPE_CHECKING:
    import onnx

Params = dict[str, np.ndarray]

_OWN = ("", "ai.onnx")
"""What ONNX calls the domain of its own operators."""


def without_form(graph: onnx.GraphProto, opset: int) -> Iterator[OnnxError]:
    """The nodes whose operators cannot be read at all."""
    for node in graph.node:
        kind = _kind(node)
        row = import_of(kind, opset)
        if row.form is None and not is_computed(kind):
            reason = f"it is of the domain {node.domain!r}, not of ONNX' own, and {row.reason}"
            yield _in_the_way(node, opset, row.reason if node.domain in _OWN else reason, row.fix)
        for inner in _bodies(node):
            yield from without_form(inner, opset)


def _kind(node: onnx.NodeProto) -> str:
    """Return the name of a node's operator, with its domain where it is not ONNX' own."""
    return node.op_type if node.domain in _OWN else f"{node.domain}.{node.op_type}"


def _bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the graphs inside a node."""
    return [
        inner
        for attribute in node.attribute
        for inner in (attribute.g, *attribute.graphs)
        if inner.node or inner.output
    ]


def _reads(graph: onnx.GraphProto) -> Counter[str]:
    """Return how often each tensor is read, in the graphs inside, too."""
    reads = Counter(name for node in graph.node for name in node.input)
    reads.update(info.name for info in graph.output)
    for node in graph.node:
        for inner in _bodies(node):
            reads.update(_reads(inner))
    return reads


def _in_the_way(node: onnx.NodeProto, opset: int, reason: str, fix: str) -> OnnxError:
    where = {"op": node.op_type, "node": _name(node), "fix": fix or None}
    return OnnxError(explain(f"{reason} (opset {opset})", **where))


def _name(node: onnx.NodeProto) -> str:
    """Return the name of a node; of one that has none that of its first output, without MXNet's suffix."""
    return node.name or next(iter(node.output), "").removesuffix("_output") or node.op_type


class Reader:
    """One reading of a graph, with numbers for its open dimensions. refused: what is in the way."""

    def __init__(
        self, graph: onnx.GraphProto, opset: int, inputs: Mapping[str, tuple[str, list[Numbers]]], weights: Weights
    ):
        self.graph, self.weights = graph, weights
        self.count = max(len(next(iter(inputs.values()))[1]) if inputs else 1, 1)
        self.reads = _reads(graph)
        budget = Budget(weights.size)
        self.g = Composer(opset, self.count, self.reads, self._body, of_sizes, budget)
        self.evaluate = ConstantEvaluator(opset, budget)
        self.refused: list[OnnxError] = []
        self.values: MutableMapping[str, Value | None] = {}  # None: of a node that cannot be read
        for name, (dtype, shapes) in inputs.items():
            self.g.begin(FileNode("Graph", name))
            self.values[name] = entering(self.g, self.g.input(name, dtype, shapes))

    def read(self) -> None:
        """Read all nodes; those that depend on one that cannot be read are left out."""
        self._read(self.graph)

    def _read(self, graph: onnx.GraphProto) -> None:
        if graph.sparse_initializer:
            raise OnnxError("The model has sparse weights, which are not read.")
        for tensor in graph.initializer:
            array = self.weights.array_of(tensor)
            self.values[tensor.name] = self._constant(tensor.name, [array] * self.count, False)
        for node in graph.node:
            self.values.update(zip(node.output, self._attempt(node), strict=True))

    def _body(self, graph: onnx.GraphProto, inputs: Sequence[Value]) -> list[Value]:
        """Return the outputs of a graph inside a node, which sees what is around it."""
        outer, node = self.values, self.g.node
        outer_values: dict[str, Value | None] = {
            info.name: value for info, value in zip(graph.input, inputs, strict=True)
        }
        self.values = ChainMap(outer_values, outer)  # a copy of what is around each of many bodies takes the square
        try:
            self._read(graph)
            values = [self.values.get(info.name) for info in graph.output]
        finally:
            self.values, self.g.node = outer, node
        results = [value for value in values if value is not None]
        if len(results) < len(values):
            self.g.refuse("a node of its body is not supported")
        return results

    def _attempt(self, node: onnx.NodeProto) -> Sequence[Value | None]:
        nothing = [None for _ in node.output]
        try:
            inputs = [self.values[name] if name else None for name in node.input]
            if any(name and value is None for name, value in zip(node.input, inputs, strict=True)):
                return nothing
            outputs = self._of_node(node, inputs)
        except OnnxError as error:
            self.refused.append(error)
            return nothing
        except NNVMError as error:
            self._refuse(node, cut(str(error)).rstrip("."), error)
            return nothing
        except OF_FORMS as error:
            self._refuse(node, f"it cannot be read: {type(error).__name__}: {first_line(error)}", error)
            return nothing
        return [*outputs, *nothing][: len(node.output)]

    def _refuse(self, node: onnx.NodeProto, reason: str, error: Exception) -> None:
        """Mark a node as unreadable. error: the reason, which becomes the cause of the final error."""
        row = _in_the_way(node, self.g.opset, reason, "")
        row.__cause__ = error
        self.refused.append(row)

    def _of_node(self, node: onnx.NodeProto, inputs: Sequence[Value | None]) -> Sequence[Value]:
        """Return the outputs of a node: computed, or composed by its operator's form."""
        attrs = self.weights.attributes(node)
        used = [self.reads[name] > 0 for name in node.output]
        kind = _kind(node)
        fresh = self.g.begin(FileNode(kind, _name(node), attrs, used))
        are_known = all(value is None or value.arrays is not None for value in inputs)
        if inputs and are_known and is_computed(kind):
            return self._computed(node, attrs, inputs)
        row = import_of(kind, self.g.opset)
        if row.form is None:
            if is_computed(kind):
                self.g.refuse(row.reason, row.fix)
            return []
        problem = input_problem(row.form, inputs)
        if problem is not None:
            self.g.refuse(problem)
        node_before = self.g.node
        result = row.form(self.g, *inputs)
        unread = sorted(set(attrs) - node_before.asked - row.ignores - defaults(node, self.g.opset))
        if unread:
            self.g.refuse(f"its attribute {unread[0]!r} is not supported")
        outputs = [result] if isinstance(result, Value) else list(result)
        self.g.christen(outputs, fresh)
        for value, name in zip(outputs, node.output, strict=False):
            if value.symbol is None and value.arrays is not None and value not in inputs:
                value.name = name
        return outputs

    def _computed(self, node: onnx.NodeProto, attrs: Any, inputs: Sequence[Value | None]) -> list[Value]:
        """Return the values computed from constants, under each assignment."""
        rows = [[None if v is None or v.arrays is None else v.arrays[i] for v in inputs] for i in range(self.count)]
        computed: list[list[np.ndarray]] = []
        for i, row in enumerate(rows):
            same = i and all(a is b for a, b in zip(row, rows[0], strict=True))
            try:
                computed.append(computed[0] if same else self.evaluate(node, attrs, row))
            except OnnxError as error:
                self.g.refuse(str(error).rstrip("."))
        in_graph = all(v is None or v.in_graph or v.ndim == 0 for v in inputs)
        columns: Iterable[tuple[np.ndarray, ...]] = zip(*computed, strict=True)
        return [self._constant(name, column, in_graph) for name, column in zip(node.output, columns, strict=False)]

    def _constant(self, name: str, arrays: Sequence[np.ndarray], in_graph: bool) -> Value:
        arrays = one(arrays)
        return Value(name, arrays[0].dtype.name, [array.shape for array in arrays], arrays, in_graph=in_graph)

    def network(self) -> tuple[Symbol, Params, Params]:
        """The whole of it. Raises OnnxError for an output that no node gives."""
        symbols: list[Symbol] = []
        for info in self.graph.output:
            value = self.values.get(info.name)
            if value is None:
                raise OnnxError(f"No node computes the output {printable(info.name)}.")
            self.g.begin(FileNode("Graph", info.name.removesuffix("_output")))
            symbols.append(leaving(self.g, value))
        net = symbols[0] if len(symbols) == 1 else Symbol.create_group(symbols)
        states = set(net.list_auxiliary_states())
        arrays = {name: self.g.arrays[name] for name in net.list_inputs() if name in self.g.arrays}
        return (
            net,
            {name: array for name, array in arrays.items() if name not in states},
            {name: array for name, array in arrays.items() if name in states},
        )
