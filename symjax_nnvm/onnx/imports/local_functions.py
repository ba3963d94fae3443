"""Local functions of an ONNX model put in the places of their calls, where that makes no more of them than is bounded.

A function that calls another twice, which calls another twice, and so on, is a few hundred bytes and 2ⁿ nodes. So the
resulting nodes and bytes are counted first, each function once, and an error names a recursive function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symjax_nnvm.errors import OnnxError, printable
from symjax_nnvm.onnx.proto import import_onnx

if TYPE_CHECKING:
    import onnx

MOST_NODES = 2**16
"""Nodes that calls of functions may add to a model."""

MOST_BYTES = 2**28
"""Bytes that they may add."""

DEEPEST = 64
"""Functions that may be inside each other."""

_ENOUGH = 2**62
"""Larger numbers count as this one."""


@dataclass
class _Size:
    """The sizes that one call of a function adds, calls inside included. received: attributes that it gets from
    its call. depth: functions inside each other."""

    nodes: int = 0
    size: int = 0
    received: int = 0
    depth: int = 0

    def add(self, other: _Size, times: int) -> None:
        self.nodes = min(self.nodes + times * other.nodes, _ENOUGH)
        self.size = min(self.size + times * other.size, _ENOUGH)
        self.received = min(self.received + times * other.received, _ENOUGH)
        self.depth = max(self.depth, other.depth + 1)


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without calls of its functions, which `refuse_many` did not refuse. Raises the errors of onnx."""
    import onnx.inliner  # no part of `import onnx`

    _give_defaults(model)
    return onnx.inliner.inline_local_functions(model)


def _give_defaults(model: onnx.ModelProto) -> None:
    """Give calls the attributes that they leave out and their function has a default of: onnx' inliner gives none."""
    usual = {_id(item.domain, item.name, item.overload): item.attribute_proto for item in model.functions}
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in _all(nodes):
            missing = usual.get(_id(node.domain, node.op_type, node.overload), ())
            names = {item.name for item in node.attribute} if missing else ()
            node.attribute.extend(item for item in missing if item.name not in names)


def refuse_many(model: onnx.ModelProto) -> None:
    """Raise OnnxError where calls of a model's functions would add more than `MOST_NODES` or `MOST_BYTES`, or never
    end."""
    functions = {_id(proto.domain, proto.name, proto.overload): proto for proto in model.functions}
    if len(functions) < len(model.functions):
        raise OnnxError("Two functions of the model have the same name.")
    largest = max((_largest_attribute(function.attribute_proto) for function in model.functions), default=0)
    calls: dict[str, Counter[str]] = {}
    sizes: dict[str, _Size] = {}
    for name, function in functions.items():
        nodes = list(_all(function.node))
        calls[name], most = _calls(nodes, functions)
        received = sum(bool(attribute.ref_attr_name) for node in nodes for attribute in node.attribute)
        sizes[name] = _Size(len(nodes), function.ByteSize(), received)
        largest = max(largest, most)
    first, most = _calls(_all(model.graph.node), functions)
    whole = _Size()
    for name in _inner_first(calls):
        for callee, times in calls[name].items():
            sizes[name].add(sizes[callee], times)
        if sizes[name].depth > DEEPEST:
            raise OnnxError(f"Functions of the model call each other {DEEPEST} deep, and deeper.")
    for name, times in first.items():
        whole.add(sizes[name], times)
    size = whole.size + whole.received * max(largest, most)
    if whole.nodes > MOST_NODES or size > MOST_BYTES:
        raise OnnxError(
            f"The model's functions would become {whole.nodes:.3g} nodes of {size:.3g} bytes; {MOST_NODES} nodes of "
            f"{MOST_BYTES} bytes are the most."
        )


def _id(domain: str, name: str, overload: str) -> str:
    """Return the identity of a function, as onnx defines it."""
    bare_domain = "" if domain == "ai.onnx" else domain
    return f"{bare_domain}::{name}" + (f"::{overload}" if overload else "")


def _all(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes, and those of the graphs inside them."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                waiting.extend(inner.node)


def _calls(nodes: Iterable[onnx.NodeProto], functions: dict[str, Any]) -> tuple[Counter[str], int]:
    """Return how often nodes call each function, and the bytes of the largest attribute that they give one."""
    calls: Counter[str] = Counter()
    largest = 0
    for node in nodes:
        name = _id(node.domain, node.op_type, node.overload)
        if name in functions:
            calls[name] += 1
            largest = max(largest, _largest_attribute(node.attribute))
    return calls, largest


def _largest_attribute(attributes: Iterable[onnx.AttributeProto]) -> int:
    """Return bytes of the largest attribute that a function gets. Raises OnnxError for a graph: what it adds where the
    function has it several times is not counted."""
    of_graphs = import_onnx().AttributeProto.GRAPH, import_onnx().AttributeProto.GRAPHS
    largest = 0
    for attribute in attributes:
        if attribute.type in of_graphs or attribute.HasField("g") or attribute.graphs:
            raise OnnxError(
                f"The attribute {printable(attribute.name)} of a local function is a graph, which is not read."
            )
        largest = max(largest, attribute.ByteSize())
    return largest


def _inner_first(calls: dict[str, Counter[str]]) -> Iterator[str]:
    """Yield functions, those that one calls before it. Raises OnnxError for one that calls itself."""
    done: set[str] = set()
    for start in calls:
        path: dict[str, Iterator[str]] = {start: iter(calls[start])} if start not in done else {}
        while path:
            name, callees = next(reversed(path.items()))
            callee = next(callees, None)
            if callee is None:
                del path[name]
                done.add(name)
                yield name
            elif callee in path:
                raise OnnxError(f"The function {printable(callee)} of the model calls itself, by way of others or not.")
            elif callee not in done:
                path[callee] = iter(calls[callee])
