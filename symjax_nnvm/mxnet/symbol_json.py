"""Symbol files of every MXNet generation: what older versions wrote is upgraded as MXNet 1.9.1 does when it loads them.

The rules are those of MXNet's `legacy_json_util.cc`, in its order; a file says which version wrote it (before 0.9 it
does not, which counts as 0.8). Nodes inside subgraphs are younger than any rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.errors import JSONFormatError, NNVMError
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.op import FListInputNames, FSetInputVarAttrOnCompose
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.passes.json_graph import check_nodes, load_json
from symjax_nnvm.passes.json_reader import Report
from symjax_nnvm.symbol.hidden_keys import HIDDEN_KEYS

__all__ = ["load_symbol_json"]

MXNET_VERSION = 10901
_UNVERSIONED = 800


def load_symbol_json(text: str, report: Report | None = None) -> Graph:
    """The graph of a symbol file of any generation, upgraded and checked.

    report: is told of nodes that cannot be used. Without it they raise JSONFormatError, as malformed files always do.
    """
    graph = load_json(text, parse=False, report=report)
    version = graph.attrs.get("mxnet_version", _UNVERSIONED)
    if not isinstance(version, int):
        raise JSONFormatError(f"Malformed graph JSON: mxnet_version is {version!r}, expected an int.")
    if version < MXNET_VERSION:
        nodes = post_order(graph.outputs)
        _hide_keys(nodes, report)
        if version < 900:
            _add_missing_inputs(nodes, report)
        if version < 904:
            _set_default_initialisers(nodes, report)
        if version < 905:
            _reduce_everything(nodes)
    check_nodes(post_order(graph.outputs), graph.outputs, report)
    return graph


@register_pass("LoadLegacyJSON", requires=("json",), change_graph=True)
def _load_legacy_json_pass(graph: Graph) -> Graph:
    """The graph that attribute `json` describes, of any MXNet version, as MXNet 1.9.1 understands it."""
    loaded = load_symbol_json(graph.attrs["json"])
    return graph.derive(loaded.outputs, loaded.attrs)


def _hide_keys(nodes: Sequence[Node], report: Report | None) -> None:
    """`lr_mult` becomes `__lr_mult__`; `weight_lr_mult` of an operator becomes `__lr_mult__` of its weight."""
    for node in nodes:
        attrs = node.attrs.dict
        for key in HIDDEN_KEYS:
            if key in attrs:
                attrs[f"__{key}__"] = attrs.pop(key)
        if node.op is None:
            continue
        of_inputs = {key: attrs.pop(key) for key in list(attrs) if key.endswith(tuple(f"_{k}" for k in HIDDEN_KEYS))}
        if not of_inputs or not _parse(node, report):
            continue
        names = list(FListInputNames[node.op](node.attrs)) if node.op in FListInputNames else []
        for key, value in of_inputs.items():
            hidden = next(k for k in HIDDEN_KEYS if key.endswith(f"_{k}"))
            argument = key.removesuffix(f"_{hidden}")
            i = names.index(argument) if argument in names else len(node.inputs)
            if i < len(node.inputs) and node.inputs[i].node.is_variable:
                node.inputs[i].node.attrs.dict[f"__{hidden}__"] = value
            else:
                attrs[key] = value  # which the operator's parser will refuse


def _add_missing_inputs(nodes: Sequence[Node], report: Report | None) -> None:
    """Trailing inputs that old files leave out, auxiliary states above all, become variables."""
    for node in nodes:
        if node.op is None or node.op not in FListInputNames or not _parse(node, report):
            continue
        required = node.num_inputs()
        names = list(FListInputNames[node.op](node.attrs))
        if required is None or len(names) != required:
            continue
        for name in names[len(node.inputs) :]:
            variable = f"{node.name}_{name}" if node.name else name
            node.inputs.append(NodeEntry(create_variable_node(variable, dict(node.attrs.dict)), 0, 0))


def _set_default_initialisers(nodes: Sequence[Node], report: Report | None) -> None:
    """What operators write on their variables when they are composed, where the file says nothing."""
    for node in nodes:
        rule = FSetInputVarAttrOnCompose.get(node.op)
        if rule is not None and _parse(node, report):
            for i, entry in enumerate(node.inputs):
                if entry.node.is_variable and "__init__" not in entry.node.attrs.dict:
                    rule(node.attrs, entry.node, i)


def _reduce_everything(nodes: Sequence[Node]) -> None:
    """In argmax and argmin an axis of -1 used to mean no axis."""
    for node in nodes:
        if node.op is not None and node.op.name in ("argmax", "argmin") and node.attrs.dict.get("axis") == "-1":
            del node.attrs.dict["axis"]


def _parse(node: Node, report: Report | None) -> bool:
    """Parse a node's parameters; whether it can be used."""
    try:
        node.attrs.parse()
    except (NNVMError, ValueError) as error:
        name = "null" if node.op is None else node.op.name
        refused = JSONFormatError(f"Failed loading Op {node.name} of type {name}: {error}")
        if report is None:
            raise refused from error
        refused.__cause__ = error
        report(node, refused)
        return False
    return True
