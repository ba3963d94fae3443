"""Roles of variables, by the operators that read them: MXNet's files do not distinguish data, labels and parameters."""

from __future__ import annotations

from collections.abc import Iterable

from symjax_nnvm.ir.attributes import FListInputNames, FMutateInputs, FSubgraphInvariants
from symjax_nnvm.ir.listing import subgraph_variables
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol

_LEARNED_INPUTS = frozenset(
    {"weight", "bias", "gamma", "beta", "parameters", "moving_mean", "moving_var", "moving_avg"}
)
_LEARNED_ENDINGS = (
    *("weight", "bias", "gamma", "beta", "alpha", "parameters"),
    *("moving_mean", "moving_var", "running_mean", "running_var", "moving_avg"),
)
_LEARNED_ATTRS = frozenset({"__init__", "__lr_mult__", "__wd_mult__"})  # Gluon writes them on every parameter


def label_variables(symbol: Symbol) -> list[Node]:
    """Return the variables that hold labels: those read only as an input `label`, and those named `…label`."""
    as_label: dict[Node, None] = {}
    otherwise: set[Node] = set()
    for node in post_order(symbol.outputs):
        if node.is_variable and node.name.endswith("label"):
            as_label[node] = None
        names = [] if node.is_variable else input_names(node)
        for i, entry in enumerate(node.inputs):
            if entry.node.is_variable and i < len(names) and names[i] == "label":
                as_label[entry.node] = None
            elif not entry.node.name.endswith("label"):
                otherwise.add(entry.node)
    return [node for node in as_label if node not in otherwise]


def learned_variables(symbol: Symbol) -> set[Node]:
    """Return the variables that look like parameters or states: by the inputs that they feed, inside loops and branches
    too, by their attributes, or by their names."""
    return _learned(symbol.outputs)


def _learned(outputs: Iterable[NodeEntry]) -> set[Node]:
    learned: set[Node] = set()
    for node in post_order(outputs):
        if node.is_variable:
            if node.name.endswith(_LEARNED_ENDINGS) or not _LEARNED_ATTRS.isdisjoint(node.attrs.dict):
                learned.add(node)
            continue
        names = input_names(node)
        mutates = FMutateInputs.get(node.op)
        states = () if mutates is None else mutates(node.attrs)
        for i, entry in enumerate(node.inputs):
            if entry.node.is_variable and (i in states or (i < len(names) and names[i] in _LEARNED_INPUTS)):
                learned.add(entry.node)
        fixed = FSubgraphInvariants[node.op](node.attrs) if node.op in FSubgraphInvariants else ()
        for body, feeds in zip(node.attrs.subgraphs, fixed, strict=False):
            inside, variables = _learned(body.outputs), subgraph_variables(body)
            fed = {node.inputs[k].node for i, k in feeds.items() if variables[i] in inside}
            learned.update(outer for outer in fed if outer.is_variable)
    return learned


def data_inputs(symbol: Symbol, given: Iterable[str] = (), params: Iterable[str] | None = None) -> set[str]:
    """Return names of the arguments that are fed in rather than learned, labels included.

    params: the names of the parameters; all others are then fed in. Without: `given`, and what does not look learned.
    """
    arguments = set(symbol.list_arguments())
    if params is not None:
        return arguments - set(params)
    return arguments & set(given) | arguments - {node.name for node in learned_variables(symbol)}


def input_names(node: Node) -> list[str]:
    """Return the names that a node's operator gives its inputs; none where it gives none."""
    list_names = FListInputNames.get(node.op)
    return [] if list_names is None else list(list_names(node.attrs))
