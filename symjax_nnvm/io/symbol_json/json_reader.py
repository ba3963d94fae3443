"""Read NNVM's graph JSON: check everything, and return nothing unless all of it is valid.

Files come from untrusted sources. Where MXNet's reader trusts them (output numbers, cycles, arity, inputs of
variables), this one checks; what MXNet accepts otherwise is accepted: all generations' field names, forward references,
aliases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from symjax_nnvm.errors import JSONFormatError
from symjax_nnvm.io.symbol_json.attrs import attr_from_json, brief
from symjax_nnvm.io.symbol_json.checks import Report, check_nodes, refuse
from symjax_nnvm.io.symbol_json.json_text import decode
from symjax_nnvm.ir.attributes import numpy_twin
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, Subgraph, VariableParam
from symjax_nnvm.ir.op import Op, closest_ops, unregistered, why_left_out

MAX_SUBGRAPH_DEPTH = 64
"""How deep graphs may be nested in nodes."""

MAX_NAME = 4096
"""How many characters the name of a node, an operator or an attribute may have."""

_MAX_VERSION = 1 << 32

_GRAPH_FIELDS = ("nodes", "arg_nodes", "heads", "node_row_ptr", "attrs")
_REQUIRED_GRAPH_FIELDS = ("nodes", "arg_nodes", "heads")
_NODE_FIELDS = (
    "op",
    "name",
    "inputs",
    "attrs",
    "attr",
    "param",
    "control_deps",
    "subgraphs",
    "backward_source_id",
)
_REQUIRED_NODE_FIELDS = ("op", "name", "inputs")
_KNOWN_NODE_FIELDS = frozenset(_NODE_FIELDS)
_SHOWN = 10  # names in one message


def load_json(text: str, *, parse: bool = True, report: Report | None = None) -> Graph:
    """Return the graph that a JSON text describes, its graph attributes included.

    parse: run the operators' parameter parsers and check each node against its operator. Without it (for files that
    must be upgraded first) `check_nodes` has to be called later; subgraphs are parsed in any case. report: is called,
    instead of an error, for every node whose operator is unknown or does not fit it.

    The version counter of a variable continues from the highest version the file stores for it, so that composing
    another mutating operator gives the next version. (NNVM restarts at 0 and hands out the same versions again.)

    Raises JSONFormatError naming the node and the field.
    """
    reader = _JSONReader(report)
    document = decode(text)
    nodes, heads = reader.read_graph(document, "the graph", 0)
    reader.refuse_unknown_operators()
    if parse:
        check_nodes(nodes, heads, report)
    return Graph(heads, reader.attrs)


def _way_out(op: str) -> str:
    close = [] if why_left_out(op) else closest_ops(op)
    fix = f"Did you mean {' or '.join(map(repr, close))}? " if close else ""
    return f"{fix}symjax_nnvm.check(file) lists all problems at once."


def _refuse(field: str, where: str, expected: str, got: object) -> NoReturn:
    raise JSONFormatError(f"Malformed graph JSON: field {field!r} of {where}", expected=expected, got=brief(got))


def _check_fields(item: Any, fields: Sequence[str], required: Sequence[str], where: str) -> None:
    if type(item) is not dict:
        raise JSONFormatError(f"Malformed graph JSON: {where}", expected="an object", got=brief(item))
    for field in item:
        if field not in fields:
            candidates = ", ".join(fields)
            raise JSONFormatError(f"JSONReader: Unknown field {field[:80]}, candidates are: {candidates}; in {where}.")
    for field in required:
        if field not in item:
            raise JSONFormatError(f'JSONReader: Missing field "{field}" in {where}.')


def _where(i: int, name: Any, graph: str) -> str:
    within = "" if graph == "the graph" else f" of {graph}"
    return f"node {i} {brief(name)}{within}" if isinstance(name, str) else f"node {i}{within}"


# -- values → nodes --------------------------------------------------------------------------------------------------


class _JSONReader:
    """One reading: operators looked up once per name, and the names that are not registered. attrs: the graph's."""

    def __init__(self, report: Report | None = None):
        self._report = report
        self.attrs: dict[str, Any] = {}
        self._ops: dict[str, Op | None] = {"null": None}
        self._unknown: dict[str, list[Node]] = {}

    def refuse_unknown_operators(self) -> None:
        """Raise JSONFormatError when operators are not registered, all of them in one message, or report each node."""
        unknown, self._unknown = self._unknown, {}
        first = list(unknown)[: _SHOWN + 1]
        for op, nodes in unknown.items():
            others = [name for name in first if name != op][:_SHOWN]
            if len(others) < len(unknown) - 1:
                others.append(f"{len(unknown) - 1 - len(others)} more")
            missing = f"Operator {op} is not registered{why_left_out(op)}"
            problem = f"Failed loading Op {nodes[0].name} of type {op}: {missing}"
            got = f"{len(nodes)} such nodes" + (f", and unknown operators {', '.join(others)}" if others else "")
            for node in nodes:
                refuse(self._report, node, problem, got=got, fix=_way_out(op) if self._report is None else None)

    def read_graph(self, document: Any, where: str, depth: int) -> tuple[list[Node], list[NodeEntry]]:
        """Return the nodes of a graph object, linked, and its heads."""
        _check_fields(document, _GRAPH_FIELDS, _REQUIRED_GRAPH_FIELDS, where)
        if depth == 0:
            self.attrs = _read_graph_attrs(document)
        items = document["nodes"]
        if type(items) is not list:
            _refuse("nodes", where, "an array of objects", items)
        nodes: list[Node] = []
        for i, item in enumerate(items):
            nodes.append(self._read_node(i, item, where, depth))
            # The object is released at once: decoded objects and nodes together would take twice the memory.
            items[i] = (item["inputs"], item["control_deps"]) if "control_deps" in item else (item["inputs"],)
        forward = False
        for i, edges in enumerate(items):
            forward = _link(i, nodes, edges, where) or forward
        if forward:
            _refuse_cycles(nodes, where)
        for nid in _read_ids(document["arg_nodes"], len(nodes), "arg_nodes", where):
            if not nodes[nid].is_variable:
                _refuse("arg_nodes", where, "numbers of variables", f"{nid}, which is an operator")
        heads, _ = _read_entries(document["heads"], nodes, len(nodes), "heads", where)
        _continue_versions(nodes, heads)
        return nodes, heads

    def _read_node(self, i: int, item: Any, graph: str, depth: int) -> Node:
        """Read one node object, without its edges."""
        if (
            type(item) is not dict
            or not item.keys() <= _KNOWN_NODE_FIELDS
            or not item.keys() >= {"op", "name", "inputs"}
        ):
            node_name = item.get("name") if type(item) is dict else None
            _check_fields(item, _NODE_FIELDS, _REQUIRED_NODE_FIELDS, _where(i, node_name, graph))
        op_name, name = item["op"], item["name"]
        if type(name) is not str:
            _refuse("name", _where(i, name, graph), "a string", name)
        if type(op_name) is not str:
            _refuse("op", _where(i, name, graph), "a string", op_name)
        if len(name) > MAX_NAME or len(op_name) > MAX_NAME:
            field = "op" if len(op_name) > MAX_NAME else "name"
            _refuse(field, _where(i, name, graph), f"at most {MAX_NAME} characters", item[field])
        attrs: dict[str, str] = {}
        for field in item:
            # Of `attr` (before 1.0) and `attrs` the later counts, as in MXNet.
            if field == "attrs" or field == "attr":
                attrs = _read_strings(item, field, i, graph)
        if "param" in item:  # before 0.9 parameters and user attributes were two maps
            attrs = _read_strings(item, "param", i, graph) | attrs
        op = self._find_op(op_name)
        node = Node(NodeAttrs(op, name, attrs, VariableParam() if op is None else None))
        if op is not None and not op.is_registered:
            self._unknown.setdefault(op_name, []).append(node)
        if "subgraphs" in item:
            node.attrs.subgraphs = self._read_subgraphs(i, item, graph, depth)
        return node

    def _find_op(self, name: str) -> Op | None:
        if name not in self._ops:
            op = Op.get(name) if Op.exists(name) else unregistered(name)
            self._ops[name] = (numpy_twin(op) if self.attrs.get("is_np_shape") else None) or op
        return self._ops[name]

    def _read_subgraphs(self, i: int, item: Any, graph: str, depth: int) -> list[Subgraph]:
        where = _where(i, item["name"], graph)
        documents = item["subgraphs"]
        if type(documents) is not list:
            _refuse("subgraphs", where, "an array of graph objects", documents)
        if depth >= MAX_SUBGRAPH_DEPTH:
            raise JSONFormatError(f"Malformed graph JSON: subgraphs nested more than {MAX_SUBGRAPH_DEPTH} levels deep.")
        subgraphs: list[Subgraph] = []
        for k, document in enumerate(documents):
            nodes, heads = self.read_graph(document, f"subgraph {k} of {where}", depth + 1)
            self.refuse_unknown_operators()
            check_nodes(nodes, heads, self._report)
            subgraphs.append(Graph(heads))
        return subgraphs


def _read_graph_attrs(document: dict[str, Any]) -> dict[str, Any]:
    """Return the graph attributes of a graph object."""
    attrs = document.get("attrs", {})
    if type(attrs) is not dict:
        _refuse("attrs", "the graph", "an object", attrs)
    for key, pair in attrs.items():
        if type(pair) is not list or len(pair) != 2:
            _refuse("attrs", "the graph", f'["type", value] for {brief(key)}', pair)
    return {key: attr_from_json(key, type_name, value) for key, (type_name, value) in attrs.items()}


def _read_strings(item: Any, field: str, i: int, graph: str) -> dict[str, str]:
    value, name = item[field], item["name"]
    if type(value) is not dict:
        _refuse(field, _where(i, name, graph), "an object of strings", value)
    for key, text in value.items():
        if type(text) is not str:
            _refuse(field, _where(i, name, graph), f"a string for {brief(key)}", text)
        if len(key) > MAX_NAME:
            _refuse(field, _where(i, name, graph), f"keys of at most {MAX_NAME} characters", key)
    return value


def _link(i: int, nodes: list[Node], edges: tuple[Any, ...], graph: str) -> bool:
    """Give a node its edges, (inputs) or (inputs, control_deps). Whether one leads to a later node or to itself."""
    node = nodes[i]
    node.inputs, forward = _read_entries(edges[0], nodes, i, "inputs", graph, node)
    for field in edges[1:]:
        deps = _read_ids(field, len(nodes), "control_deps", graph, i, node)
        node.control_deps = [nodes[dep] for dep in deps]
        forward = forward or any(dep >= i for dep in deps)
    return forward


def _read_entries(
    value: Any, nodes: list[Node], number: int, field: str, graph: str, user: Node | None = None
) -> tuple[list[NodeEntry], bool]:
    """Return entries `[node, output]` or `[node, output, version]`, and whether one is of node `number` or a later."""
    entries: list[NodeEntry] = []
    forward = False
    if type(value) is not list:
        _refuse(field, _place(number, user, graph), "an array of entries", value)
    for entry in value:
        if type(entry) is not list or not 2 <= len(entry) <= 3:
            _refuse(field, _place(number, user, graph), "entries [node, output, version]", entry)
        nid, index, version = entry if len(entry) == 3 else (*entry, 0)
        if not (type(nid) is type(index) is type(version) is int and 0 <= nid < len(nodes) and index >= 0):
            expected = f"entries [node, output, version] of integers, nodes < {len(nodes)}"
            _refuse(field, _place(number, user, graph), expected, entry)
        if not 0 <= version < _MAX_VERSION:
            _refuse(field, _place(number, user, graph), f"versions < {_MAX_VERSION}", entry)
        forward = forward or nid >= number
        entries.append(NodeEntry(nodes[nid], index, version if nodes[nid].is_variable else 0))
    return entries, forward


def _read_ids(value: Any, count: int, field: str, graph: str, number: int = 0, user: Node | None = None) -> list[int]:
    if type(value) is not list or not all(type(n) is int for n in value):
        _refuse(field, _place(number, user, graph), "an array of integers", value)
    for nid in value:
        if not 0 <= nid < count:
            _refuse(field, _place(number, user, graph), f"node numbers < {count}", nid)
    return value


def _place(number: int, user: Node | None, graph: str) -> str:
    return graph if user is None else _where(number, user.name, graph)


def _continue_versions(nodes: list[Node], heads: list[NodeEntry]) -> None:
    """Set every variable's counter to the highest version stored for it."""
    for entries in (*(node.inputs for node in nodes), heads):
        for source, _, version in entries:
            if version and source.attrs.op is None and version > source.attrs.parsed.version:
                source.attrs.parsed.version = version


def _refuse_cycles(nodes: list[Node], graph: str) -> None:
    """Order the nodes by their edges; those that cannot be ordered are on a cycle, or depend on one."""
    users: dict[Node, list[Node]] = {}
    waiting: dict[Node, int] = {}
    for node in nodes:
        sources = [*(entry.node for entry in node.inputs), *node.control_deps]
        waiting[node] = len(sources)
        for source in sources:
            users.setdefault(source, []).append(node)
    ready = [node for node in nodes if not waiting[node]]
    while ready:
        for user in users.get(ready.pop(), ()):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    stuck = [i for i, node in enumerate(nodes) if waiting[node]]
    if stuck:
        place = _where(stuck[0], nodes[stuck[0]].name, graph)
        _refuse("inputs", place, "no cycle", "a node that waits for itself")
