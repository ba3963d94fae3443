"""Compose: giving a symbol its inputs, or replacing its variables (NNVM's `Symbol::Compose`).

A symbol whose one node has no inputs yet is *atomic*: composing fills the operator's inputs. Any other symbol is
composed by substituting variables by name. Everything is checked before anything is changed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from symjax_nnvm.errors import ComposeError, listed, unknown_keyword
from symjax_nnvm.ir.attributes import FInputGraph, FListInputNames, FMutateInputs, FSetInputVarAttrOnCompose
from symjax_nnvm.ir.check_graph import subgraph_misfit
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry, Subgraph, create_variable_node, update_node_version
from symjax_nnvm.ir.sharding import SHARDING
from symjax_nnvm.ir.traverse import post_order

Heads = Sequence[NodeEntry]
"""The outputs of a symbol: what an argument is."""


def is_atomic(outputs: Sequence[NodeEntry]) -> bool:
    """Return whether all outputs come from one node that has neither inputs nor control dependencies."""
    node = outputs[0].node
    return not node.inputs and not node.control_deps and all(entry.node is node for entry in outputs)


def compose(
    outputs: list[NodeEntry], args: Sequence[Heads], kwargs: Mapping[str, Heads], name: str = ""
) -> list[NodeEntry]:
    """Compose a graph in place and return its outputs, which may be others; `name`, if given, renames the node of the
    first. Raises ComposeError."""
    if not outputs:
        raise ComposeError("An empty group cannot be composed.")
    if is_atomic(outputs):
        compose_atomic(outputs[0].node, args, kwargs, name)
        return outputs
    composed = _compose_general(outputs, args, kwargs)
    if name:
        outputs[0].node.attrs.name = name
    return composed


# -- atomic ----------------------------------------------------------------------------------------------------------


def compose_atomic(node: Node, args: Sequence[Heads], kwargs: Mapping[str, Heads], name: str = "") -> None:
    """Fill the inputs of an operator node; inputs that are not given become variables `{name}_{input}`.

    Automatic variables inherit the operator's attributes, but not how its result is split over
    devices. Raises ComposeError; then the node is unchanged.
    """
    attrs = node.attrs
    op = attrs.op
    if op is None:
        if args or kwargs:
            raise ComposeError(
                "A variable takes no inputs",
                node=node,
                got=f"{len(args) + len(kwargs)} argument(s)",
                fix="Compose the symbol that uses the variable, with the variable's name as keyword.",
            )
        attrs.name = name or attrs.name
        return
    graph_inputs = FInputGraph.get(op)
    subgraphs: list[Subgraph] = []
    if graph_inputs is not None or kwargs or len(args) != op.fixed_num_inputs:
        list_names = FListInputNames.get(op)
        names = ["data"] if list_names is None else list(list_names(attrs))
        required = node.num_inputs()
        indices = [] if graph_inputs is None else list(graph_inputs(attrs))
        graph_names = {names[i] for i in indices if i < len(names)}
        _check_single(node, args, kwargs, indices, graph_names)
        if indices:
            args, kwargs, subgraphs = _take_subgraphs(node, indices, names, args, kwargs)
            names = [n for i, n in enumerate(names) if i not in indices]
            required = None if required is None else required - len(indices)
        inputs = _gather_inputs(node, required, names, args, kwargs, name)
    else:
        inputs = [arg[0] for arg in args if len(arg) == 1]
        if len(inputs) < len(args):
            _check_single(node, args, kwargs)
    if subgraphs:
        _check_subgraphs(node, subgraphs)
    previous = node.inputs
    node.inputs = inputs
    try:
        update_node_version(node)
    except ComposeError:
        node.inputs = previous
        raise
    if name:
        attrs.name = name
    if subgraphs:
        attrs.subgraphs = [*attrs.subgraphs, *subgraphs]
    set_input_attr = FSetInputVarAttrOnCompose.get(op)
    if set_input_attr is not None:
        for i, entry in enumerate(node.inputs):
            if entry.node.is_variable:
                set_input_attr(attrs, entry.node, i)


def _check_subgraphs(node: Node, subgraphs: Sequence[Subgraph]) -> None:
    """Raise ComposeError unless the subgraphs have as many variables and heads as in the parameters."""
    attrs = node.attrs.copy()
    attrs.subgraphs = [*attrs.subgraphs, *subgraphs]
    misfit = subgraph_misfit(Node(attrs))
    if misfit is not None:
        raise ComposeError(
            "The subgraphs do not fit the parameters", op=node.op, node=node, expected=misfit[0], got=misfit[1]
        )


def _check_single(
    node: Node,
    args: Sequence[Heads],
    kwargs: Mapping[str, Heads],
    graph_inputs: Container[int] = (),
    graph_names: Container[str] = (),
) -> None:
    for i, arg in enumerate(args):
        if len(arg) != 1 and i not in graph_inputs:
            raise _grouped(node, f"Argument {i}", arg)
    for key, arg in kwargs.items():
        if len(arg) != 1 and key not in graph_names:
            raise _grouped(node, f"Keyword Argument {key}", arg)


def _grouped(node: Node, what: str, arg: Heads) -> ComposeError:
    return ComposeError(
        f"{what} is a tuple, single value is required",
        op=node.op,
        node=node,
        got=f"a symbol of {len(arg)} outputs",
        fix="Choose one output, e.g. symbol[0].",
    )


def _take_subgraphs(
    node: Node, indices: Sequence[int], names: Sequence[str], args: Sequence[Heads], kwargs: Mapping[str, Heads]
) -> tuple[Sequence[Heads], Mapping[str, Heads], list[Subgraph]]:
    """Split the inputs that are graphs (FInputGraph) from those that are values."""
    kwargs = dict(kwargs)
    subgraphs: list[Subgraph] = []
    for i in indices:
        if i < len(args):
            subgraphs.append(Graph(args[i]))
        elif i < len(names) and names[i] in kwargs:
            subgraphs.append(Graph(kwargs.pop(names[i])))
        else:
            raise ComposeError("A subgraph is missing", op=node.op, node=node, input=names[i] if i < len(names) else i)
    return [arg for i, arg in enumerate(args) if i not in indices], kwargs, subgraphs


def _gather_inputs(
    node: Node,
    required: int | None,
    names: Sequence[str],
    args: Sequence[Heads],
    kwargs: Mapping[str, Heads],
    name: str,
) -> list[NodeEntry]:
    """Gather the inputs: positional arguments first, then keywords, then new variables."""
    if required is None:
        if kwargs:
            raise ComposeError(
                "Variable length function do not accept kwargs", op=node.op, node=node, got=sorted(kwargs)
            )
        return [arg[0] for arg in args]
    if len(args) > required:
        raise ComposeError(
            f"Incorrect number of arguments, requires {required}, provided {len(args)}", op=node.op, node=name or node
        )
    inputs = [arg[0] for arg in args]
    open_names = names[len(args) : required]
    if len(args) < required and len(names) != required:
        raise ComposeError(
            f"Not enough argument to call operator {node.attrs.op.name if node.attrs.op else 'null'}",
            node=name or node,
            expected=f"{required} inputs",
            got=f"{len(args)}, and input names {listed(names)} for the rest",
            fix="Give every input by position, or register FListInputNames.",
        )
    _check_keywords(kwargs, open_names, node)
    for input_name in open_names:
        value = kwargs.get(input_name)
        if value is not None:
            inputs.append(value[0])
        else:
            variable = f"{name}_{input_name}" if name else input_name
            inherited = {key: text for key, text in node.attrs.dict.items() if key != SHARDING}
            inputs.append(NodeEntry(create_variable_node(variable, inherited), 0, 0))
    return inputs


def _check_keywords(kwargs: Iterable[str], candidates: Sequence[str], node: Node | None = None) -> None:
    """Raise NNVM's KeywordArgumentMismatch for the first keyword that is not a candidate."""
    for key in kwargs:
        if key not in candidates:
            where = "" if node is None or node.op is None else f" (operator '{node.op.name}')"
            raise ComposeError(unknown_keyword("Symbol.Compose", key, candidates, where))


# -- general ---------------------------------------------------------------------------------------------------------


def _compose_general(outputs: list[NodeEntry], args: Sequence[Heads], kwargs: Mapping[str, Heads]) -> list[NodeEntry]:
    """Substitute every variable whose name is a keyword, all at once."""
    if args:
        raise ComposeError("General composition only support kwargs for now")
    _check_single(outputs[0].node, (), kwargs)
    nodes = post_order(outputs)
    variables = [node for node in nodes if node.is_variable]
    # Distinct keys are counted, not variables: two variables of one name are both replaced, and an unknown key is
    # always an error (upstream silently does nothing when the counts differ).
    names = {node.name for node in variables}
    if not names.issuperset(kwargs):
        _check_keywords(kwargs, [node.name for node in variables])
    replacement = {node: kwargs[node.name][0] for node in variables if node.name in kwargs}
    changed: list[tuple[Node, list[NodeEntry]]] = []
    for node in nodes:
        if any(entry.node in replacement for entry in node.inputs):
            inputs = [replacement.get(entry.node, entry) for entry in node.inputs]
            mutates = FMutateInputs.get(node.op)
            for i in () if mutates is None else mutates(node.attrs):
                if not inputs[i].node.is_variable:
                    problem = "Mutation target can only be Variable"
                    raise ComposeError(problem, op=node.op, node=node, input=i, got=inputs[i].node)
            changed.append((node, inputs))
    for node, inputs in changed:
        node.inputs = inputs
        update_node_version(node)
    return [replacement.get(entry.node, entry) for entry in outputs]
