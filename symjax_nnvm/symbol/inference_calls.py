"""A symbol's calls of the inference passes, in MXNet's conventions for known values and lists of results."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from symjax_nnvm.errors import InferenceError, SymbolTypeError, SymbolValueError, printable, unknown_keyword
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.listing import input_names, output_names
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.pass_registry import apply_pass
from symjax_nnvm.ir.types import (
    DTypeList,
    ShapeList,
    dtype_name,
    format_shape,
    is_known,
    shape_from_legacy,
    shape_from_numpy,
)

Lists = tuple[list[Any], list[Any], list[Any], list[Any]]
"""(all entries, arguments, outputs, auxiliary states)"""


def infer_shapes(
    outputs: Sequence[NodeEntry], args: Sequence[Any], kwargs: Mapping[str, Any], numpy_shapes: bool = False
) -> Lists:
    """Run MXInferShape from positional or keyword shapes. Raises InferenceError, SymbolTypeError, SymbolValueError.

    numpy_shapes: what is given and what variables declare is in MXNet's convention under `np_shape`.
    """
    from_border = shape_from_numpy if numpy_shapes else shape_from_legacy

    def shape(key: object, value: Any) -> Any:
        if not isinstance(value, (tuple, list)):
            raise SymbolTypeError(f"Arguments need to be shapes (tuple), but '{key}' is {type(value)}.")
        try:
            sizes = tuple(map(operator.index, value))
        except TypeError:
            raise SymbolTypeError(f"The shape of '{key}' needs whole numbers", got=f"{value!r:.80}") from None
        if any(size < -1 for size in sizes):
            expected = "sizes, and 0 or -1 for those that are unknown"
            raise SymbolValueError(f"The shape of '{key}' has a size below -1", expected=expected, got=f"{value!r:.80}")
        return from_border(sizes)

    graph = Graph(outputs, {"numpy_shapes": True} if numpy_shapes else {})
    return _infer(graph, "MXInferShape", "shape", _values_by_node(graph, "InferShape", args, kwargs, shape))


def infer_dtypes(outputs: Sequence[NodeEntry], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Lists:
    """Run MXInferType from positional or keyword dtypes. Raises InferenceError, SymbolTypeError, SymbolValueError."""

    def dtype(key: object, value: Any) -> Any:
        try:
            return dtype_name(value)
        except ValueError as error:
            raise SymbolTypeError(f"Argument '{key}' needs a dtype: {error}") from None

    graph = Graph(outputs)
    return _infer(graph, "MXInferType", "dtype", _values_by_node(graph, "InferType", args, kwargs, dtype))


def warn_undecided_shapes(outputs: Sequence[NodeEntry], arguments: Sequence[Any], heads: Sequence[Any]) -> None:
    """Warn about the arguments, else the heads, whose shape is undecided."""
    named = [*zip(input_names(outputs, "read_only"), arguments, strict=True)]
    unknown = [(name, shape) for name, shape in named if not is_known(shape)]
    if not unknown:
        named = zip(output_names(outputs), heads, strict=True)
        unknown = [(name, shape) for name, shape in named if not is_known(shape)]
    _warn("shape", [f"{name}: {format_shape(shape)}" for name, shape in unknown], "(? means unknown dimensions)")


def warn_undecided_dtypes(outputs: Sequence[NodeEntry], arguments: Sequence[Any]) -> None:
    """Warn about the arguments whose dtype is undecided."""
    named = zip(input_names(outputs, "read_only"), arguments, strict=True)
    _warn("type", [name for name, dtype in named if dtype is None], "")


def _warn(what: str, undecided: Sequence[str], note: str) -> None:
    shown = "".join(f"\n\t{printable(line)}" for line in undecided[:10])
    more = f"\n\t... ({len(undecided)} in all)" if len(undecided) > 10 else ""
    warnings.warn(
        f"Cannot decide {what} for the following arguments{note and ' '}{note}. "
        f"Consider providing them as input:{shown}{more}",
        stacklevel=4,
    )


def _values_by_node(
    graph: Graph,
    what: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    convert: Callable[[object, Any], Any],
) -> dict[Node, Any]:
    """Return the values that the caller gives, by variable node; a shared name reaches all of them."""
    if args and kwargs:
        raise SymbolValueError("Can only specify known argument shapes either by positional or kwargs way.")
    by_node: dict[Node, Any] = {}
    index = graph.indexed_graph()
    if args:
        nodes = [index.nodes[nid].source for nid in index.input_nodes if nid not in index.mutable_input_nodes]
        if len(args) > len(nodes):
            raise InferenceError(f"More provided shapes than number of arguments: {len(args)} for {len(nodes)}.")
        for i, (node, value) in enumerate(zip(nodes, args, strict=False)):
            if value is not None:
                by_node[node] = convert(i, value)
        return by_node
    by_name: dict[str, list[Node]] = {}
    for nid in index.input_nodes:
        node = index.nodes[nid].source
        by_name.setdefault(node.name, []).append(node)
    for key, value in kwargs.items():
        if key not in by_name:
            raise InferenceError(unknown_keyword(what, key, index.input_names))
        if value is not None:
            by_node.update((node, convert(key, value)) for node in by_name[key])
    return by_node


def _infer(graph: Graph, pass_name: str, result: str, by_variable: Mapping[Node, Any]) -> Lists:
    index = graph.indexed_graph()
    values = [by_variable.get(index.nodes[nid].source) for nid in index.input_nodes]
    graph.attrs[f"{result}_inputs"] = ShapeList(values) if result == "shape" else DTypeList(values)
    graph.attrs[f"{result}_attr_key"] = f"__{result}__"
    entries = apply_pass(graph, pass_name).attrs[result]
    arguments, aux = [], []
    for nid in index.input_nodes:
        (aux if nid in index.mutable_input_nodes else arguments).append(entries[index.entry_rptr[nid]])
    return entries, arguments, [entries[index.entry_id(head)] for head in index.outputs], aux
