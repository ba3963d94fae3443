"""Node, NodeEntry and NodeAttrs: the parts that a graph is made of.

A node is a mutable record compared by identity; names need not be unique. A node without an operator is a variable.
Source of the semantics: NNVM's `node.h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast

from symjax_nnvm.errors import ComposeError, explain
from symjax_nnvm.ir.attributes import FMutateInputs, FNumVisibleOutputs
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import value_to_text
from symjax_nnvm.ir.source_info import caller

__all__ = [
    "Node",
    "NodeAttrs",
    "NodeEntry",
    "Subgraph",
    "VariableParam",
    "altered",
    "apply",
    "create_variable_node",
    "superseding",
    "update_node_version",
]


class Subgraph(Protocol):
    """Describes the part of a symbol that the IR needs when an operator runs it: its heads."""

    outputs: list[NodeEntry]


class VariableParam:
    """The private counter of a variable: how often operators composed so far mutate it."""

    __slots__ = ("version",)

    def __init__(self, version: int = 0):
        self.version = version

    def __repr__(self) -> str:
        return f"VariableParam(version={self.version})"


class NodeAttrs:
    """A node's operator, name, parameters and attributes.

    Attributes:
        op: the operator; None for a variable.
        name: the node's name; may be empty.
        dict: parameters and user attributes, as text.
        parsed: what the operator's parser made of `dict`; a variable's `VariableParam`.
        scalars: numbers of operators in NNVM's 2016 form.
        subgraphs: symbols that a control-flow operator runs.
        draw_place: the node's place among those of its network that draw random numbers, in topological order; None
            until a program is made of the network.
        source: the file and line where the node was made, if `source_info` remembers them.
    """

    __slots__ = ("dict", "draw_place", "name", "op", "parsed", "scalars", "source", "subgraphs")

    def __init__(
        self,
        op: Op | None = None,
        name: str = "",
        dict: dict[str, str] | None = None,
        parsed: Any = None,
        scalars: Sequence[float] = (),
        subgraphs: Sequence[Subgraph] = (),
        draw_place: int | None = None,
        source: str | None = None,
    ):
        self.op = op
        self.name = name
        self.dict: dict[str, str] = {} if dict is None else dict
        self.parsed: Any = VariableParam() if op is None and parsed is None else parsed
        self.scalars = scalars
        self.subgraphs = subgraphs
        self.draw_place = draw_place
        self.source = source

    def copy(self) -> NodeAttrs:
        """Return an independent copy; subgraphs stay shared handles."""
        parsed = self.parsed
        if self.op is None and parsed is not None:
            parsed = VariableParam(parsed.version)
        shared = self.scalars, self.subgraphs, self.draw_place, self.source
        return NodeAttrs(self.op, self.name, self.dict.copy(), parsed, *shared)

    def parse(self) -> None:
        """Run the operator's parser, if it has one: `dict` → `parsed`."""
        if self.op is not None and self.op.attr_parser is not None:
            self.op.attr_parser(self)

    def __repr__(self) -> str:
        op = "null" if self.op is None else self.op.name
        return f"NodeAttrs(op={op}, name={self.name!r}, dict={self.dict})"


class Node:
    """An operation or a variable. Nodes are compared and hashed by identity.

    Attributes:
        attrs: the operator, name, parameters and attributes.
        inputs: one entry for each input.
        control_deps: nodes that must run before this one. Assign a new sequence to change them: most nodes share the
            empty one.
        info: whatever a pass attaches; never copied.
    """

    __slots__ = ("__weakref__", "attrs", "control_deps", "info", "inputs")

    def __init__(
        self,
        attrs: NodeAttrs | None = None,
        inputs: list[NodeEntry] | None = None,
        control_deps: Sequence[Node] = (),
    ):
        self.attrs = NodeAttrs() if attrs is None else attrs
        self.inputs: list[NodeEntry] = [] if inputs is None else inputs
        self.control_deps = control_deps
        self.info: Any = None

    @property
    def op(self) -> Op | None:
        """Return the operator; None for a variable."""
        return self.attrs.op

    @property
    def name(self) -> str:
        """Return the node's name, `attrs.name`."""
        return self.attrs.name

    @property
    def is_variable(self) -> bool:
        """Return whether the node is a placeholder: it has no operator."""
        return self.attrs.op is None

    def num_inputs(self) -> int | None:
        """Return the number of inputs with these attributes: 1 for a variable, None for any number."""
        op = self.attrs.op
        return 1 if op is None else op.num_inputs(self.attrs)

    def num_outputs(self) -> int:
        """Return the number of outputs, hidden ones included; 1 for a variable."""
        op = self.attrs.op
        return 1 if op is None else op.num_outputs(self.attrs)

    def num_visible_outputs(self) -> int:
        """Return the number of outputs that a user sees: `FNumVisibleOutputs`, else all of them."""
        op = self.attrs.op
        if op is None:
            return 1
        visible = FNumVisibleOutputs.get(op)
        return op.num_outputs(self.attrs) if visible is None else visible(self.attrs)

    def copy(self) -> Node:
        """Return a new node with copied attributes and the same inputs and control dependencies."""
        return Node(self.attrs.copy(), list(self.inputs), self.control_deps)

    def __repr__(self) -> str:
        return f"<Node {self.op.name if self.op else 'variable'} {self.name!r}>"


def altered(attrs: NodeAttrs, op: str | None = None, **params: object) -> NodeAttrs:
    """Return the attributes for another operator, or for other parameters of the same: those that both have stay, and
    so do the user's; `params` in Python form. Raises OpNotRegisteredError, ParamError."""
    operator = attrs.op if op is None else Op.get(op)
    assert operator is not None
    fields = operator.params.fields if operator.params else {}
    texts = {key: text for key, text in attrs.dict.items() if key in fields or key.startswith("__")}
    texts |= {key: value_to_text(value) for key, value in params.items()}
    new = NodeAttrs(operator, attrs.name, texts, None, attrs.scalars, attrs.subgraphs, attrs.draw_place, attrs.source)
    if operator.attr_parser is not None:
        operator.attr_parser(new)
    return new


class NodeEntry(NamedTuple):
    """One output of a node: (node, index, version). Entries are equal when node, index and version are.

    Attributes:
        node: the node.
        index: the number of the output.
        version: for a variable, the value after this number of mutations; else without meaning.
    """

    node: Node
    index: int = 0  # pyright: ignore[reportIncompatibleMethodOverride]  # NNVM's name
    version: int = 0


def superseding(node: Node, op: str) -> Node:
    """Return the same node under an operator that keeps more of its results (TSupersedes); itself if it is one."""
    if node.op is not None and node.op.name == op:
        return node
    attrs = node.attrs.copy()
    attrs.op, attrs.name = Op.get(op), f"{attrs.name}_kept"
    return Node(attrs, list(node.inputs), [node])


def create_variable_node(name: str, attrs: dict[str, str] | None = None) -> Node:
    """Return a variable with a fresh version counter."""
    return Node(NodeAttrs(None, name, attrs, VariableParam(), source=caller()))


def update_node_version(node: Node) -> None:
    """Give every variable input its current version; an input that the operator mutates gets the next one.

    Raises ComposeError when a mutated input is not a variable; then nothing is changed.
    """
    inputs = node.inputs
    op = node.attrs.op
    mutates = FMutateInputs.get(op)
    mutated = () if mutates is None else tuple(mutates(node.attrs))
    for i in mutated:
        if i >= len(inputs) or not inputs[i].node.is_variable:
            raise ComposeError(
                explain(
                    "Mutation target can only be Variable",
                    op=op,
                    node=node,
                    input=i,
                    got=f"the output of node {inputs[i].node.name!r}" if i < len(inputs) else f"{len(inputs)} inputs",
                )
            )
    for i, entry in enumerate(inputs):
        source = entry[0]
        if source.attrs.op is None:
            version = source.attrs.parsed.version
            if entry[2] != version:
                inputs[i] = NodeEntry(source, entry[1], version)
    for i in mutated:
        source = inputs[i].node
        source.attrs.parsed.version += 1
        inputs[i] = NodeEntry(source, inputs[i].index, source.attrs.parsed.version)


def apply(
    op: str | Op,
    *inputs: NodeEntry,
    name: str = "",
    control_deps: Sequence[Node] = (),
    **params: object,
) -> NodeEntry:
    """Apply an operator to entries and return its first output; gradient rules build graphs with it.

    Entry i of a node with several outputs is `entry._replace(index=i)`.

    Args:
        op: the operator or its name.
        inputs: all inputs of the operator; no variables are created for missing ones.
        name: the name of the node.
        control_deps: nodes that must run before it.
        params: parameters as Python values; they are stored as text and parsed like a user's.

    Raises:
        OpNotRegisteredError: no operator has the name.
        ParamError: a parameter is unknown, or its value is wrong.
    """
    operator = op if isinstance(op, Op) else Op.get(op)
    for key, value in params.items():
        if type(value) is not str:
            params[key] = value_to_text(value)
    attrs = NodeAttrs(operator, name, cast(dict[str, str], params))
    if operator.attr_parser is not None:
        operator.attr_parser(attrs)
    return tuple.__new__(NodeEntry, (Node(attrs, list(inputs), control_deps), 0, 0))
