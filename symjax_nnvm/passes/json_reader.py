"""Reading NNVM's graph JSON: everything is checked, and nothing is returned unless all of it is well.

Files come from strangers. Where MXNet's reader trusts them (output numbers, cycles, arity, inputs of variables), this
one checks; what MXNet accepts otherwise is accepted: all generations' field names, forward references, aliases.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from symjax_nnvm.errors import JSONFormatError, NNVMError, explain
from symjax_nnvm.ir.bulk import bulk_allocation
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry, VariableParam
from symjax_nnvm.ir.op import FInputGraph, FMutateInputs, Op, unregistered, why_left_out
from symjax_nnvm.passes.json_attrs import attr_from_json, brief
from symjax_nnvm.symbol.symbol import Symbol

__all__ = ["MAX_SUBGRAPH_DEPTH", "Report", "check_nodes", "load_json", "stand_in"]

Report = Callable[[Node, JSONFormatError], None]
"""Told of a node that cannot be used, and why, instead of raising the error; it has to `stand_in` for the node."""

MAX_SUBGRAPH_DEPTH = 64
"""How deep graphs may be nested in nodes."""

_MAX_OUTPUTS = 1 << 20  # of one node: a number in a file must not decide how much memory inference takes
_MAX_UNKNOWN_OUTPUTS = 1 << 10  # of a node whose operator does not say how many it has
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


@bulk_allocation()
def load_json(text: str, *, parse: bool = True, report: Report | None = None) -> Graph:
    """The graph that a JSON text describes, its graph attributes included.

    parse: run the operators' parameter parsers and check each node against its operator. Without it (for files that
    must be upgraded first) `check_nodes` has to be called later; subgraphs are parsed in any case. report: is told of
    every node whose operator is unknown or does not fit it, where an error would be raised otherwise.

    The version counter of a variable continues from the highest version the file stores for it, so that composing
    another mutating operator gives the next version. (NNVM restarts at 0 and hands out the same versions again.)

    Raises JSONFormatError naming the node and the field.
    """
    reader = _Reader(report)
    document = _decode(text)
    nodes, heads = reader.read_graph(document, "the graph", 0)
    attrs = reader.read_graph_attrs(document)
    reader.refuse_unknown_operators()
    if parse:
        check_nodes(nodes, heads, report)
    return Graph(heads, attrs)


def check_nodes(nodes: Iterable[Node], heads: Sequence[NodeEntry] = (), report: Report | None = None) -> None:
    """Parse the parameters of loaded nodes, and check number of inputs, output numbers and mutated inputs.

    report: is told of nodes that do not pass. Without it raises JSONFormatError naming the node.
    """
    nodes = list(nodes)
    for node in nodes:
        op = node.attrs.op
        if op is not None and op.attr_parser is not None:
            try:
                op.attr_parser(node.attrs)
            except (NNVMError, ValueError) as error:
                _tell(report, node, f"Failed loading Op {node.name} of type {op.name}: {error}", error)
    for node in nodes:
        _check_arity(node, report)
        for i, entry in enumerate(node.inputs):
            _check_output_number(entry, node, i, report)
        mutates = FMutateInputs.get(node.attrs.op)
        for i in () if mutates is None else mutates(node.attrs):
            source = node.inputs[i].node if i < len(node.inputs) else None
            if source is None or not source.is_variable:
                got = "no such input" if source is None else f"the output of node {source.name!r}"
                _tell(
                    report,
                    node,
                    explain("Mutation target can only be Variable", op=node.op, node=node, input=i, got=got),
                )
    for i, entry in enumerate(heads):
        _check_output_number(entry, None, i, report)


def stand_in(node: Node) -> None:
    """Make a node one of an operator that nothing is known of, so that the rest of its graph can be looked at."""
    node.attrs.op, node.attrs.parsed = unregistered("null" if node.op is None else node.op.name), None


def _tell(report: Report | None, node: Node, problem: str, cause: Exception | None = None) -> None:
    error = JSONFormatError(problem)
    error.__cause__ = cause
    if report is None:
        raise error
    report(node, error)


def _check_arity(node: Node, report: Report | None) -> None:
    attrs = node.attrs
    op = attrs.op
    if op is None:
        if node.inputs:
            problem = explain("A variable takes no inputs", node=node, got=f"{len(node.inputs)} inputs")
            _tell(report, node, problem)
        return
    required = op.num_inputs(attrs)
    graph_inputs = FInputGraph.get(op)
    if graph_inputs is not None and required is not None:
        required -= len(list(graph_inputs(attrs)))
    if required is not None and len(node.inputs) != required:
        problem = explain(
            "Wrong number of inputs",
            op=op,
            node=node,
            expected=f"{required} in field 'inputs'",
            got=len(node.inputs),
        )
        _tell(report, node, problem)
    elif op.fixed_num_outputs is None and not 0 <= op.num_outputs(attrs) <= _MAX_OUTPUTS:
        problem = explain(
            "Too many outputs", op=op, node=node, expected=f"at most {_MAX_OUTPUTS}", got=op.num_outputs(attrs)
        )
        _tell(report, node, problem)


def _check_output_number(entry: NodeEntry, user: Node | None, i: int, report: Report | None) -> None:
    source, index, _ = entry
    count = source.num_outputs()
    if index < count:
        return
    known = source.op is None or source.op.is_registered
    problem = explain(
        f"Head {i} of field 'heads' is an output that does not exist"
        if user is None
        else f"Input {i} of field 'inputs' is an output that does not exist",
        node=user,
        expected=f"an output number < {count if known else _MAX_UNKNOWN_OUTPUTS} of node {source.name!r}",
        got=index,
    )
    if known:
        _tell(report, source, problem)
    if index >= _MAX_UNKNOWN_OUTPUTS:
        raise JSONFormatError(problem)
    source.attrs.parsed = index + 1


# -- text → values ---------------------------------------------------------------------------------------------------


def _decode(text: object) -> Any:
    """The JSON value of a text, duplicate keys refused."""
    if not isinstance(text, str):
        raise JSONFormatError(explain("Graph JSON must be text", got=type(text).__name__))
    try:
        # MXNet writes control characters as they are, which strict JSON forbids.
        document = json.loads(text, strict=False, object_pairs_hook=_unique)
        if "\\u" in text:
            json.dumps(document, ensure_ascii=False).encode()
    except JSONFormatError:
        raise
    except RecursionError:
        raise JSONFormatError("Malformed graph JSON: the values are nested too deep.") from None
    except UnicodeEncodeError:
        raise JSONFormatError("Malformed graph JSON: a string has half of a surrogate pair.") from None
    except ValueError as error:
        raise JSONFormatError(f"Malformed graph JSON: {error}.") from None
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        name = found.get("name")
        raise JSONFormatError(
            explain(
                f"Malformed graph JSON: field {brief(twice)} occurs twice in one object",
                node=name if isinstance(name, str) else None,
                got=f"fields {brief([key for key, _ in pairs])}",
            )
        )
    return found


def _refuse(field: str, where: str, expected: str, got: object) -> NoReturn:
    raise JSONFormatError(
        explain(f"Malformed graph JSON: field {field!r} of {where}", expected=expected, got=brief(got))
    )


def _check_fields(item: Any, known: Sequence[str], required: Sequence[str], where: str) -> None:
    if type(item) is not dict:
        raise JSONFormatError(explain(f"Malformed graph JSON: {where}", expected="an object", got=brief(item)))
    for field in item:
        if field not in known:
            raise JSONFormatError(
                explain(f"JSONReader: Unknown field {field[:80]}, candidates are: {', '.join(known)}; in {where}")
            )
    for field in required:
        if field not in item:
            raise JSONFormatError(explain(f'JSONReader: Missing field "{field}" in {where}'))


def _where(i: int, item: Any, graph: str) -> str:
    name = item.get("name") if isinstance(item, dict) else None
    within = "" if graph == "the graph" else f" of {graph}"
    return f"node {i} {name!r}{within}" if isinstance(name, str) else f"node {i}{within}"


# -- values → nodes --------------------------------------------------------------------------------------------------


class _Reader:
    """One reading: operators looked up once per name, and the names that are not registered."""

    def __init__(self, report: Report | None = None):
        self._report = report
        self._ops: dict[str, Op | None] = {"null": None}
        self._unknown: dict[str, list[Node]] = {}

    def refuse_unknown_operators(self) -> None:
        """Raise JSONFormatError when operators are not registered, all of them in one message, or report each node."""
        unknown, self._unknown = self._unknown, {}
        for op, nodes in unknown.items():
            others = [name for name in unknown if name != op]
            problem = explain(
                f"Failed loading Op {nodes[0].name} of type {op}: Operator {op} is not registered{why_left_out(op)}",
                got=f"{len(nodes)} such nodes" + (f", and unknown operators {', '.join(others)}" if others else ""),
            )
            for node in nodes:
                _tell(self._report, node, problem)

    def read_graph(self, document: Any, where: str, depth: int) -> tuple[list[Node], list[NodeEntry]]:
        """The nodes of a graph object, linked, and its heads."""
        _check_fields(document, _GRAPH_FIELDS, _REQUIRED_GRAPH_FIELDS, where)
        items = document["nodes"]
        if type(items) is not list:
            _refuse("nodes", where, "an array of objects", items)
        nodes = [self._read_node(i, item, where, depth) for i, item in enumerate(items)]
        forward = False
        for i, item in enumerate(items):
            forward = _link(i, nodes, item, where) or forward
        if forward:
            _refuse_cycles(nodes, items, where)
        for nid in _read_ids(document["arg_nodes"], len(nodes), "arg_nodes", where):
            if not nodes[nid].is_variable:
                _refuse("arg_nodes", where, "numbers of variables", f"{nid}, which is an operator")
        heads, _ = _read_entries(document["heads"], nodes, len(nodes), "heads", where)
        _continue_versions(nodes, heads)
        return nodes, heads

    def read_graph_attrs(self, document: dict[str, Any]) -> dict[str, Any]:
        """The graph attributes of a graph object."""
        attrs = document.get("attrs", {})
        if type(attrs) is not dict:
            _refuse("attrs", "the graph", "an object", attrs)
        for key, pair in attrs.items():
            if type(pair) is not list or len(pair) != 2:
                _refuse("attrs", "the graph", f'["type", value] for {key!r}', pair)
        return {key: attr_from_json(key, type_name, value) for key, (type_name, value) in attrs.items()}

    def _read_node(self, i: int, item: Any, graph: str, depth: int) -> Node:
        """One node object without its edges."""
        if (
            type(item) is not dict
            or not item.keys() <= _KNOWN_NODE_FIELDS
            or not item.keys() >= {"op", "name", "inputs"}
        ):
            _check_fields(item, _NODE_FIELDS, _REQUIRED_NODE_FIELDS, _where(i, item, graph))
        op_name, name = item["op"], item["name"]
        if type(name) is not str:
            _refuse("name", _where(i, item, graph), "a string", name)
        if type(op_name) is not str:
            _refuse("op", _where(i, item, graph), "a string", op_name)
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
            self._ops[name] = Op.get(name) if Op.exists(name) else unregistered(name)
        return self._ops[name]

    def _read_subgraphs(self, i: int, item: Any, graph: str, depth: int) -> list[Symbol]:
        where = _where(i, item, graph)
        documents = item["subgraphs"]
        if type(documents) is not list:
            _refuse("subgraphs", where, "an array of graph objects", documents)
        if depth >= MAX_SUBGRAPH_DEPTH:
            raise JSONFormatError(f"Malformed graph JSON: subgraphs nested more than {MAX_SUBGRAPH_DEPTH} levels deep.")
        subgraphs: list[Symbol] = []
        for k, document in enumerate(documents):
            nodes, heads = self.read_graph(document, f"subgraph {k} of {where}", depth + 1)
            self.refuse_unknown_operators()
            check_nodes(nodes, heads, self._report)
            subgraphs.append(Symbol(heads))
        return subgraphs


def _read_strings(item: Any, field: str, i: int, graph: str) -> dict[str, str]:
    value = item[field]
    if type(value) is not dict:
        _refuse(field, _where(i, item, graph), "an object of strings", value)
    for key, text in value.items():
        if type(text) is not str:
            _refuse(field, _where(i, item, graph), f"a string for {key!r}", text)
    return value


def _link(i: int, nodes: list[Node], item: Any, graph: str) -> bool:
    """Give a node its edges. Whether one of them leads to a later node or to itself."""
    node = nodes[i]
    node.inputs, forward = _read_entries(item["inputs"], nodes, i, "inputs", graph, item)
    if "control_deps" in item:
        deps = _read_ids(item["control_deps"], len(nodes), "control_deps", graph, i, item)
        node.control_deps = [nodes[dep] for dep in deps]
        forward = forward or any(dep >= i for dep in deps)
    return forward


def _read_entries(
    value: Any, nodes: list[Node], user: int, field: str, graph: str, item: Any = None
) -> tuple[list[NodeEntry], bool]:
    """Entries `[node, output]` or `[node, output, version]`, and whether one is of a node numbered `user` or later."""
    entries: list[NodeEntry] = []
    forward = False
    if type(value) is not list:
        _refuse(field, _place(user, item, graph), "an array of entries", value)
    for entry in value:
        if type(entry) is not list or not 2 <= len(entry) <= 3:
            _refuse(field, _place(user, item, graph), "entries [node, output, version]", entry)
        nid, index, version = entry if len(entry) == 3 else (*entry, 0)
        if not (type(nid) is type(index) is type(version) is int and 0 <= nid < len(nodes) and index >= 0):
            expected = f"entries [node, output, version] of integers, nodes < {len(nodes)}"
            _refuse(field, _place(user, item, graph), expected, entry)
        if not 0 <= version < _MAX_VERSION:
            _refuse(field, _place(user, item, graph), f"versions < {_MAX_VERSION}", entry)
        forward = forward or nid >= user
        entries.append(NodeEntry(nodes[nid], index, version))
    return entries, forward


def _read_ids(value: Any, count: int, field: str, graph: str, user: int = 0, item: Any = None) -> list[int]:
    if type(value) is not list or not all(type(n) is int for n in value):
        _refuse(field, _place(user, item, graph), "an array of integers", value)
    for nid in value:
        if not 0 <= nid < count:
            _refuse(field, _place(user, item, graph), f"node numbers < {count}", nid)
    return value


def _place(user: int, item: Any, graph: str) -> str:
    return graph if item is None else _where(user, item, graph)


def _continue_versions(nodes: list[Node], heads: list[NodeEntry]) -> None:
    """Set every variable's counter to the highest version stored for it."""
    for entries in (*(node.inputs for node in nodes), heads):
        for source, _, version in entries:
            if version and source.attrs.op is None and version > source.attrs.parsed.version:
                source.attrs.parsed.version = version


def _refuse_cycles(nodes: list[Node], items: list[Any], graph: str) -> None:
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
        _refuse("inputs", _where(stuck[0], items[stuck[0]], graph), "no cycle", "a node that waits for itself")
