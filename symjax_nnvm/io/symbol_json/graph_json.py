"""SaveJSON and LoadJSON: a graph as NNVM's JSON text, byte for byte, and back.

The layout is that of dmlc's JSON writer, blanks at line ends included, so that files can be compared with MXNet's.
`json_reader` reads; this file writes and registers both passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from symjax_nnvm.errors import JSONFormatError
from symjax_nnvm.io.symbol_json.attrs import attr_to_json
from symjax_nnvm.io.symbol_json.checks import check_nodes
from symjax_nnvm.io.symbol_json.json_reader import MAX_SUBGRAPH_DEPTH, load_json
from symjax_nnvm.ir.attributes import FNumFileOutputs, TFileName
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedEntry, IndexedGraph, IndexedNode
from symjax_nnvm.ir.pass_registry import register_pass

__all__ = ["check_nodes", "load_json", "save_json"]

_MAX_INLINE = 10  # dmlc's writer puts longer arrays of numbers or entries on one line each

_ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def save_json(graph: Graph) -> str:
    """Return the graph, its attributes included, as JSON text. `load_json` reads it back.

    Raises JSONFormatError when a graph attribute, a name or a node attribute cannot be written.
    """
    attrs = {key: attr_to_json(key, graph.attrs[key]) for key in sorted(graph.attrs)}
    return _graph_text(graph.indexed_graph(), attrs, 0)


@register_pass("SaveJSON", provides=("json",))
def _save_json_pass(graph: Graph) -> Graph:
    """Return an empty graph whose attribute `json` is the text of the given one."""
    return graph.derive((), {"json": save_json(graph)})


@register_pass("LoadJSON", requires=("json",), change_graph=True)
def _load_json_pass(graph: Graph) -> Graph:
    """Return the graph that attribute `json` describes; with `load_json_no_parse`, parameters stay unparsed."""
    loaded = load_json(graph.attrs["json"], parse=not graph.attrs.get("load_json_no_parse", False))
    return graph.derive(loaded.outputs, loaded.attrs)


# -- layout ----------------------------------------------------------------------------------------------------------
# `depth` is the number of containers around a text, itself included; dmlc's writer indents by two blanks for each.


def _block(brackets: str, items: Sequence[str], depth: int, multiline: bool, inside_multiline: bool = True) -> str:
    """Return items between brackets, on one line or one line each."""
    if not items:
        return brackets
    if not multiline:
        return f"{brackets[0]}{', '.join(items)}{brackets[1]}"
    pad = "\n" + "  " * depth
    # The closing bracket takes a line of its own only where the container around it does.
    end = "\n" + "  " * (depth - 1) if inside_multiline else ""
    return f"{brackets[0]}{pad}{(', ' + pad).join(items)}{end}{brackets[1]}"


def _numbers(values: Sequence[int], depth: int, inside_multiline: bool = True) -> str:
    return _block("[]", [str(value) for value in values], depth, len(values) > _MAX_INLINE, inside_multiline)


def _entries(entries: Sequence[IndexedEntry], depth: int) -> str:
    return _block("[]", [f"[{n}, {i}, {v}]" for n, i, v in entries], depth, len(entries) > _MAX_INLINE)


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _graph_text(index: IndexedGraph, attrs: dict[str, tuple[str, Any]], depth: int) -> str:
    """Return a graph object inside `depth` containers."""
    fields = [
        f'"nodes": {_block("[]", [_node_text(inode, depth + 3) for inode in index.nodes], depth + 2, True)}',
        f'"arg_nodes": {_numbers(index.input_nodes, depth + 2)}',
        f'"node_row_ptr": {_numbers(_row_ptr(index, attrs), depth + 2)}',
        f'"heads": {_entries(index.outputs, depth + 2)}',
    ]
    if attrs:
        items = [
            f"{_quote(key)}: [{_quote(t)}, {_attr_text(t, value, depth + 4)}]" for key, (t, value) in attrs.items()
        ]
        fields.append(f'"attrs": {_block("{}", items, depth + 2, len(items) > 1)}')
    return _block("{}", fields, depth + 1, True)


def _row_ptr(index: IndexedGraph, attrs: dict[str, tuple[str, Any]]) -> Sequence[int]:
    """Return running totals of the nodes' outputs: MXNet's counts, or ours where a graph attribute is a list by
    them."""
    if any(type_name.startswith("list") for type_name, _ in attrs.values()):
        return index.entry_rptr
    counts = [end - begin for begin, end in pairwise(index.entry_rptr)]
    for nid, inode in enumerate(index.nodes):
        counted = FNumFileOutputs.get(inode.source.attrs.op)
        if counted is not None:
            counts[nid] = counted(inode.source.attrs)
    return list(accumulate(counts, initial=0))


def _attr_text(type_name: str, value: Any, depth: int) -> str:
    """Return the value of a graph attribute; it stands in a pair, which is always on one line."""
    match type_name:
        case "str":
            return _quote(value)
        case "list_str":
            return _block("[]", [_quote(item) for item in value], depth, True, False)
        case "list_int":
            return _numbers(value, depth, False)
        case "list_shape":
            return _block("[]", [_numbers(shape, depth + 1) for shape in value], depth, True, False)
        case "dict_str_int":
            items = [f"{_quote(key)}: {value[key]}" for key in sorted(value)]
            return _block("{}", items, depth, len(items) > 1, False)
    return str(value)


def _node_text(inode: IndexedNode, depth: int) -> str:
    """Return a node object; `depth` counts it."""
    attrs = inode.source.attrs
    pad = "\n" + "  " * depth
    op = "null" if attrs.op is None else TFileName.get(attrs.op, attrs.op.name)
    parts = [f'{{{pad}"op": {_quote(op)}, {pad}"name": {_quote(attrs.name)}, {pad}']
    if attrs.dict:
        try:
            items = [f"{_quote(key)}: {_quote(attrs.dict[key])}" for key in sorted(attrs.dict)]
        except (AttributeError, TypeError):
            raise _not_text(inode) from None
        parts.append(f'"attrs": {_block("{}", items, depth + 1, len(items) > 1)}, {pad}')
    parts.append(f'"inputs": {_entries(inode.inputs, depth + 1)}')
    if inode.control_deps:
        parts.append(f', {pad}"control_deps": {_numbers(inode.control_deps, depth + 1)}')
    if attrs.subgraphs:
        if depth > 4 * MAX_SUBGRAPH_DEPTH:  # a graph inside a node adds four containers
            raise JSONFormatError(
                f"Subgraphs are nested more than {MAX_SUBGRAPH_DEPTH} levels deep", op=op, node=attrs.name
            )
        graphs = [_graph_text(IndexedGraph(symbol.outputs), {}, depth + 1) for symbol in attrs.subgraphs]
        parts.append(f', {pad}"subgraphs": {_block("[]", graphs, depth + 1, True)}')
    parts.append("\n" + "  " * (depth - 1) + "}")
    return "".join(parts)


def _not_text(inode: IndexedNode) -> JSONFormatError:
    node = inode.source
    wrong = {k: v for k, v in node.attrs.dict.items() if not (isinstance(k, str) and isinstance(v, str))}
    return JSONFormatError(
        "Attributes must be text", op=node.op, node=node, got=wrong, fix="Store str(value) as the attribute."
    )
