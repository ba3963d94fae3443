"""Load symbol files of every MXNet generation: older ones are upgraded as MXNet 1.9.1 upgrades them.

The rules are those of MXNet's `legacy_json_util.cc`, in its order; a file names the version that wrote it (none before
0.9, which counts as 0.8). Nodes inside subgraphs are younger than any rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.errors import JSONFormatError, NNVMError
from symjax_nnvm.io.symbol_json.attrs import brief
from symjax_nnvm.io.symbol_json.checks import Report, check_nodes, refuse
from symjax_nnvm.io.symbol_json.graph_json import load_json
from symjax_nnvm.ir.attributes import FListInputNames, FSetInputVarAttrOnCompose
from symjax_nnvm.ir.graph import MXNET_VERSION, Graph
from symjax_nnvm.ir.node import Node, NodeEntry, create_variable_node
from symjax_nnvm.ir.pass_registry import register_pass
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.hidden_keys import HIDDEN_KEYS

_UNVERSIONED = 800
_MAX_MISSING = 16  # inputs that a node of an old file may leave out
_MAX_COPIES = 256  # attributes per node, on the whole, that are copied to inputs that were left out


def load_symbol_json(text: str, report: Report | None = None) -> Graph:
    """Return the graph of a symbol file of any generation, upgraded and checked.

    report: is called for unusable nodes. Without it they raise JSONFormatError, as malformed files always do.
    """
    graph = load_json(text, parse=False, report=report)
    version = graph.attrs.get("mxnet_version", _UNVERSIONED)
    if not isinstance(version, int):
        raise JSONFormatError(f"Malformed graph JSON: mxnet_version is {brief(version)}, expected an int.")
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
    """Return the graph that attribute `json` describes, of any MXNet version, as MXNet 1.9.1 understands it."""
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
        numbers = {name: i for i, name in enumerate(_input_names(node))}
        for key, value in of_inputs.items():
            hidden = next(k for k in HIDDEN_KEYS if key.endswith(f"_{k}"))
            argument = key.removesuffix(f"_{hidden}")
            i = numbers.get(argument, len(node.inputs))
            if i < len(node.inputs) and node.inputs[i].node.is_variable:
                node.inputs[i].node.attrs.dict[f"__{hidden}__"] = value
            else:
                attrs[key] = value  # which the operator's parser will refuse


def _add_missing_inputs(nodes: Sequence[Node], report: Report | None) -> None:
    """Add variables for trailing inputs that old files leave out, auxiliary states above all."""
    copies = 0
    for node in nodes:
        if node.op is None or not _parse(node, report):
            continue
        names = _input_names(node)
        if len(names) != node.num_inputs():
            continue
        for name in names[len(node.inputs) :]:
            variable = f"{node.name}_{name}" if node.name else name
            copies += len(node.attrs.dict)
            if copies > _MAX_COPIES * (len(nodes) + _MAX_COPIES):
                raise JSONFormatError("Operators with too many attributes are missing inputs", op=node.op, node=node)
            node.inputs.append(NodeEntry(create_variable_node(variable, dict(node.attrs.dict)), 0, 0))


def _set_default_initialisers(nodes: Sequence[Node], report: Report | None) -> None:
    """Give variables the initialisers that operators write when composed, where the file has none."""
    for node in nodes:
        rule = FSetInputVarAttrOnCompose.get(node.op)
        if rule is not None and _parse(node, report):
            for i, entry in enumerate(node.inputs):
                if entry.node.is_variable and "__init__" not in entry.node.attrs.dict:
                    rule(node.attrs, entry.node, i)


def _reduce_everything(nodes: Sequence[Node]) -> None:
    """Remove an axis of -1 from argmax and argmin, where it used to mean no axis."""
    for node in nodes:
        if node.op is not None and node.op.name in ("argmax", "argmin") and node.attrs.dict.get("axis") == "-1":
            del node.attrs.dict["axis"]


def _input_names(node: Node) -> Sequence[str]:
    """Return names of all inputs that a parsed operator node should have; none where its operator does not name
    them."""
    if node.op is None or node.op not in FListInputNames:
        return ()
    required = node.num_inputs()
    if required is not None and required > len(node.inputs) + _MAX_MISSING:
        raise JSONFormatError(
            "The number of inputs is wrong",
            op=node.op,
            node=node,
            expected=f"{required} in field 'inputs', of which old files leave out a few",
            got=len(node.inputs),
        )
    return list(FListInputNames[node.op](node.attrs))


def _parse(node: Node, report: Report | None) -> bool:
    """Parse a node's parameters; whether it can be used."""
    try:
        node.attrs.parse()
    except (NNVMError, ValueError) as error:
        name = "null" if node.op is None else node.op.name
        refuse(report, node, f"Failed loading Op {node.name} of type {name}: {error}", error)
        return False
    return True
