"""Read a model with nodes that this version may not support: a node that cannot be used is noted and replaced."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from symjax_nnvm.check.report import Findings, Kind
from symjax_nnvm.errors import JSONFormatError, OpNotRegisteredError, SymbolTypeError, closest
from symjax_nnvm.io.files import path_text
from symjax_nnvm.io.guess import naming
from symjax_nnvm.io.symbol_json.checks import check_nodes, stand_in
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.op import Op, closest_ops, why_left_out
from symjax_nnvm.ir.params import ParamField, ParamSchema
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.mxnet.symbol_json import load_symbol_json
from symjax_nnvm.symbol.symbol import Symbol, read_symbol, read_text

_SOUGHT = 20  # unknown operators of a file whose closest names are looked for, among a thousand each


@dataclass
class TolerantModel:
    """A model to be checked. refused: nodes that another operator stands in for, and why. attrs: the graph's."""

    symbol: Symbol
    attrs: dict[str, Any] = field(default_factory=dict)
    refused: dict[Node, list[JSONFormatError]] = field(default_factory=dict)

    def refuse(self, node: Node, error: JSONFormatError) -> None:
        """Note that a node cannot be used, and make the rest of its graph usable without it."""
        self.refused.setdefault(node, []).append(error)
        stand_in(node)

    def nodes(self) -> Iterator[tuple[str, Node]]:
        """Yield every node with its name, those of subgraphs as `outer/inner`."""
        graphs = [("", self.symbol.outputs)]
        while graphs:
            path, outputs = graphs.pop()
            for node in post_order(outputs):
                yield path + node.name, node
                graphs += [(f"{path}{node.name}/", graph.outputs) for graph in node.attrs.subgraphs]


def read_model(source: Symbol | str | os.PathLike[str]) -> TolerantModel:
    """Read a symbol, JSON text (it begins with `{`), or the path of a symbol file.

    Raises JSONFormatError, FileError, OSError.
    """
    if isinstance(source, Symbol):
        model = TolerantModel(source.copy())
        check_nodes(post_order(model.symbol.outputs), model.symbol.outputs, model.refuse)
        return model
    if not isinstance(source, (str, os.PathLike)):
        raise SymbolTypeError("check needs a Symbol, the path of a symbol file, or its text", got=type(source).__name__)
    if isinstance(source, str) and source.lstrip().startswith("{"):
        text = source
    elif "\0" in path_text(source, "check"):
        raise JSONFormatError(f"{source!r:.200} is neither JSON text nor the path of a symbol file.")
    else:
        text = read_text(source)
    model = TolerantModel(Symbol())
    with nullcontext() if text is source else naming(source):
        graph = load_symbol_json(text, model.refuse)
    model.symbol, model.attrs = read_symbol(graph), graph.attrs
    return model


# -- why a node was refused ------------------------------------------------------------------------------------------


def describe_refusals(model: TolerantModel, findings: Findings) -> None:
    """Word what the reader noted, those nodes first that the outputs reach."""
    names = {node: name for name, node in model.nodes()}
    unknown = dict.fromkeys(
        node.op.name for node in model.refused if node.op is not None and not Op.exists(node.op.name)
    )
    sought = frozenset(list(unknown)[:_SOUGHT])
    for node in [*names, *(node for node in model.refused if node not in names)]:
        for error in model.refused.get(node, ()):
            _describe(node, names.get(node, node.name), error, findings, sought)


def _describe(node: Node, name: str, error: JSONFormatError, findings: Findings, sought: Container[str]) -> None:
    """Word one refusal. sought: the unknown operators that close names are looked for."""
    op = "null" if node.op is None else node.op.name
    cause = error.__cause__
    if isinstance(cause, OpNotRegisteredError):
        reason, fix = _custom(node.attrs.dict.get("op_type", ""))
        findings.add("custom operator", "error", name, reason, op=op, fix=fix)
    elif cause is not None:
        schema = Op.get(op).params
        attrs = {key: text for key, text in node.attrs.dict.items() if key != "op_type"}
        problems = _parameter_problems(attrs, schema) if schema is not None else []
        for kind, reason, fix in problems or [("bad parameter", str(cause), "")]:
            findings.add(kind, "error", name, reason, op=op, fix=fix)
    elif not Op.exists(op) and op != "null":
        reason, fix = _unknown_operator(op, op in sought)
        findings.add("unknown operator", "error", name, reason, op=op, fix=fix)
    else:
        findings.add("broken node", "error", name, str(error), op=op)


def _unknown_operator(op: str, seek: bool) -> tuple[str, str]:
    reason = why_left_out(op).removeprefix(": ")
    if reason:
        return reason[0].upper() + reason[1:], ""
    close = closest_ops(op, cutoff=0.7) if seek else []
    fix = f"Perhaps {' or '.join(close)} is meant; " if close else ""
    return (
        "MXNet 1.9.1 has no operator of this name, or has it in a plugin only",
        f"{fix}register an operator of your own with symjax_nnvm.register_op before you load the file.",
    )


def _custom(op_type: str) -> tuple[str, str]:
    return (
        f"op_type {op_type!r} is a Python operator of the model's author, whose code is not in the file",
        f"Write it again: symjax_nnvm.register_custom({op_type!r}, ...) and @lowering.lowers_custom({op_type!r}).",
    )


def _parameter_problems(attrs: Mapping[str, str], schema: ParamSchema) -> list[tuple[Kind, str, str]]:
    """Return every parameter that the operator does not take, cannot read or lacks; the parser stops at the first."""
    problems: list[tuple[Kind, str, str]] = []
    for key, text in attrs.items():
        param = schema.fields.get(schema.canonical(key))
        if param is None:
            if not (len(key) >= 5 and key.startswith("__") and key.endswith("__")):
                close = closest(key, schema.fields, most=1)
                fix = f"Its parameters are {', '.join(schema.fields) or 'none'}."
                problems.append(("unknown parameter", f"{key}={text[:80]!r}", f"{close[0]}? {fix}" if close else fix))
        elif not _reads(param, text):
            problems.append(("bad parameter", f"{param.name}={text[:80]!r}, expected {param.expected}", ""))
    names = {schema.canonical(key) for key in attrs}
    missing = [param.name for param in schema.fields.values() if param.required and param.name not in names]
    problems.extend(("bad parameter", f"{name} is required but missing", "") for name in missing)
    return problems


def _reads(param: ParamField, text: str) -> bool:
    try:
        return param.admits(param.parse(text.strip() if param.annotation is not str else text))
    except ValueError:
        return False
