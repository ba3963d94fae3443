"""PrintGraphIR: a graph as text for people, with attributes of entries and nodes joined to each line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symjax_nnvm.errors import GraphError, PassError, printable
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedEntry, IndexedGraph
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.ir.types import DTypeList, ShapeList, dtype_code, shape_to_legacy

_MAX_INLINE_INPUTS = 3  # more inputs than this are listed one per line
_SEPARATOR = ",\n      "


def print_ir(graph: Graph, *, join_entry_attrs: Sequence[str] = (), join_node_attrs: Sequence[str] = ()) -> str:
    """Return the graph as text, in the layout of NNVM's PrintGraphIR.

    join_entry_attrs: graph attributes with one value per entry, such as `shape`, to print beside each node.
    join_node_attrs: graph attributes with one value per node, such as `device`; NNVM looks these up by entry number,
    which goes wrong behind a node of several outputs. Raises PassError, GraphError.
    """
    index = graph.indexed_graph()
    joins = [_entry_join(graph, index, key) for key in join_entry_attrs]
    joins += [_node_join(graph, index, key) for key in join_node_attrs]
    names = [f"%{name}" for name in index.input_names]
    separator = ", " if len(names) <= _MAX_INLINE_INPUTS else _SEPARATOR
    lines = [f"Graph({separator.join(names)}) {{"]
    if joins:
        lines += [f"  %{index.nodes[nid].source.name}{_joined(joins, nid)}" for nid in index.input_nodes]
    for nid, inode in enumerate(index.nodes):
        node = inode.source
        if node.op is not None:
            arguments = [_entry_text(index, entry) for entry in inode.inputs]
            arguments += [f"{key}='{value}'" for key, value in sorted(node.attrs.dict.items())]
            deps = (
                f", control_deps=[{', '.join(f'%{dep}' for dep in inode.control_deps)}]" if inode.control_deps else ""
            )
            lines.append(f"  %{nid} = {node.op.name}({', '.join(arguments)}){deps}{_joined(joins, nid)}")
    lines.append(f"  ret {', '.join(_entry_text(index, entry) for entry in index.outputs)}")
    lines.append("}")
    keys = sorted(graph.attrs)
    return "\n".join(map(_safe, lines)) + (f"\ngraph_attr_keys = [{', '.join(keys)}]\n" if keys else "")


@register_pass("PrintGraphIR", provides=("graphir",))
def _print_ir_pass(graph: Graph) -> Graph:
    """Return an empty graph whose `graphir` is the text; `join_entry_attrs` and `join_node_attrs` are consumed."""
    attrs = dict(graph.attrs)
    entry_keys = _key_list(attrs.pop("join_entry_attrs", ()), "join_entry_attrs")
    node_keys = _key_list(attrs.pop("join_node_attrs", ()), "join_node_attrs")
    text = print_ir(graph.derive(attrs=attrs), join_entry_attrs=entry_keys, join_node_attrs=node_keys)
    return graph.derive((), {"graphir": text})


def _safe(line: str) -> str:
    """Return a line whose names cannot begin another, but for the separator of many inputs."""
    return _SEPARATOR.join(map(printable, line.split(_SEPARATOR)))


def _key_list(keys: Any, name: str) -> Sequence[str]:
    if not isinstance(keys, (list, tuple)) or not all(isinstance(key, str) for key in keys):
        raise PassError(f"Graph attribute {name}", expected="a list of attribute names", got=repr(keys)[:80])
    return keys


def _entry_text(index: IndexedGraph, entry: IndexedEntry) -> str:
    node = index.nodes[entry.node_id].source
    if node.op is None:
        return f"%{node.name}"
    return f"%{entry.node_id}" if node.num_outputs() == 1 else f"%{entry.node_id}.{entry.index}"


def _joined(joins: Sequence[Callable[[int], str]], nid: int) -> str:
    return "".join(join(nid) for join in joins)


def _entry_join(graph: Graph, index: IndexedGraph, key: str) -> Callable[[int], str]:
    texts = _value_texts(graph, key, index.num_node_entries, "entry")

    def join(nid: int) -> str:
        first, end = index.entry_rptr[nid], index.entry_rptr[nid + 1]
        values = texts[first:end]
        return f", {key}={values[0] if len(values) == 1 else '[' + ', '.join(values) + ']'}"

    return join


def _node_join(graph: Graph, index: IndexedGraph, key: str) -> Callable[[int], str]:
    texts = _value_texts(graph, key, index.num_nodes, "node")
    return lambda nid: f", {key}={texts[nid]}"


def _value_texts(graph: Graph, key: str, count: int, per: str) -> list[str]:
    """Return the values of a graph attribute as text: shapes as `[2,3]`, dtypes as codes, as NNVM prints them."""
    if key not in graph.attrs:
        raise PassError(f"Cannot find {key} in graph attr", got=f"attributes {sorted(graph.attrs)}")
    match graph.attrs[key]:
        case ShapeList() as shapes:
            texts = [f"[{','.join(map(str, shape_to_legacy(shape)))}]" for shape in shapes]
        case DTypeList() as dtypes:
            texts = [str(dtype_code(dtype)) for dtype in dtypes]
        case (list() | tuple()) as values if all(isinstance(value, (int, str)) for value in values):
            texts = [str(value) for value in values]
        case value:
            raise PassError(
                f"Cannot handle type {type(value).__name__} of graph attribute {key}",
                expected="a list of shapes, integers or strings",
            )
    if len(texts) != count:
        raise GraphError(
            f"Graph attribute {key} does not fit the graph", expected=f"one value per {per}, {count}", got=len(texts)
        )
    return texts
