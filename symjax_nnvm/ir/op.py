"""Op, OpMap, OpGroup and the operator registry (NNVM's `op.h`).

An `Op` is data: name, aliases, description, arguments, arity, parameter parser. Everything else that the library or a
user knows about operators is an *attribute* under an open key (`FInferShape`, `FGradient`, …, any new one), kept in one
live `OpMap` per key. Writes take a lock; reads do not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from symjax_nnvm.errors import AttributeConflictError, GraphError, OpNotRegisteredError, closest

if TYPE_CHECKING:
    from symjax_nnvm.ir.node import Node, NodeAttrs, NodeEntry
    from symjax_nnvm.ir.params import ParamSchema
    from symjax_nnvm.ir.types import DType, Shape

__all__ = [
    "DEFAULT_PLEVEL",
    "GROUP_PLEVEL",
    "ArgumentInfo",
    "Deviation",
    "Op",
    "OpGroup",
    "OpMap",
    "declare_left_out",
    "get_op",
    "list_all_names",
    "list_ops",
    "list_unique_ops",
    "register",
    "unregistered",
    "why_left_out",
]

DEFAULT_PLEVEL = 10
"""Priority of an attribute set on an operator."""

GROUP_PLEVEL = 1
"""Priority of an attribute set on a group: an operator's own attribute always wins."""

T = TypeVar("T")

_lock = threading.RLock()
_ops: list[Op] = []
_by_name: dict[str, Op] = {}
_maps: dict[str, OpMap[Any]] = {}
_groups: dict[str, OpGroup] = {}
_left_out: dict[str, str] = {}


@dataclass(frozen=True)
class ArgumentInfo:
    """One documented argument of an operator: a tensor input or a parameter."""

    name: str
    type: str
    description: str = ""


@dataclass(frozen=True)
class Deviation:
    """How an operator differs from MXNet 1.9.1. affects: what comes out of it, or only gradients and training. when:
    parameters → whether they bring it about; None: all do."""

    what: str
    affects: Literal["outputs", "training"] = "outputs"
    when: Callable[[Any], bool] | None = None


class OpMap(Generic[T]):
    """One attribute of all operators: a live table, op → value, with the priority each value was set at."""

    __slots__ = ("_values", "key")

    def __init__(self, key: str):
        self.key = key
        self._values: dict[Op, tuple[T, int]] = {}

    def __getitem__(self, op: Op | None) -> T:
        """The value. Raises GraphError when the operator is None or has none."""
        if op is None:
            raise GraphError(f"Attribute {self.key} was asked of a variable, which has no operator.")
        found = self._values.get(op)
        if found is None:
            raise GraphError(f"Attribute {self.key} has not been registered for Operator {op.name}")
        return found[0]

    def get(self, op: Op | None, default: Any = None) -> Any:
        """The value, or `default` when the operator is None or has none."""
        found = self._values.get(op) if op is not None else None
        return default if found is None else found[0]

    def count(self, op: Op | None) -> int:
        """1 when the operator has a value, else 0."""
        return int(op in self._values)

    def contains(self, op: Op | None) -> bool:
        """Whether the operator has a value."""
        return op in self._values

    __contains__ = contains

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<OpMap {self.key}: {len(self._values)} operators>"


def _kind(value: object) -> str:
    """What counts as one type of attribute value: all callables are of one kind."""
    return "function" if callable(value) else type(value).__name__


class Op:
    """An operator. Made by `register`; setters return the operator, so that calls chain as in NNVM.

    index: registration number. aliases: other names it answers to; they never appear in graphs or files.
    params: schema of the typed parameters, when it was declared with one. inputs: declared tensor input names, all of
    them, whether or not the parameters use each. key_var_num_args: parameter that carries the number of positional
    inputs of a variadic operator.
    """

    __slots__ = (
        "_num_inputs",
        "_num_inputs_of",
        "_num_outputs",
        "_num_outputs_of",
        "aliases",
        "arguments",
        "attr_parser",
        "description",
        "index",
        "inputs",
        "key_var_num_args",
        "name",
        "params",
        "support_level",
    )

    def __init__(self, name: str, index: int):
        self.name = name
        self.index = index
        self.aliases: list[str] = []
        self.description = ""
        self.arguments: list[ArgumentInfo] = []
        self.support_level = 10
        self.attr_parser: Callable[[NodeAttrs], None] | None = None
        self.params: ParamSchema | None = None
        self.inputs: tuple[str, ...] = ()
        self.key_var_num_args: str | None = None
        self._num_inputs: int | None = 1
        self._num_outputs = 1
        self._num_inputs_of: Callable[[NodeAttrs], int | None] | None = None
        self._num_outputs_of: Callable[[NodeAttrs], int] | None = None

    # -- arity ---------------------------------------------------------------------------------------------------

    def num_inputs(self, attrs: NodeAttrs) -> int | None:
        """Number of inputs with these attributes; None means any number (NNVM's kVarg)."""
        return self._num_inputs if self._num_inputs_of is None else self._num_inputs_of(attrs)

    def num_outputs(self, attrs: NodeAttrs) -> int:
        """Number of outputs with these attributes, hidden ones included."""
        return self._num_outputs if self._num_outputs_of is None else self._num_outputs_of(attrs)

    @property
    def fixed_num_inputs(self) -> int | None:
        """The number of inputs when no function of the attributes decides it; None otherwise."""
        return self._num_inputs if self._num_inputs_of is None else None

    @property
    def fixed_num_outputs(self) -> int | None:
        """The number of outputs when no function of the attributes decides it; None otherwise."""
        return self._num_outputs if self._num_outputs_of is None else None

    def set_num_inputs(self, n: int | Callable[[NodeAttrs], int | None] | None) -> Op:
        """A number, None for any number, or a function of the attributes, which wins over any number."""
        if callable(n):
            self._num_inputs_of = n
        else:
            self._num_inputs = n
        return self

    def set_num_outputs(self, n: int | Callable[[NodeAttrs], int]) -> Op:
        """A number, or a function of the attributes, which wins over any number."""
        if callable(n):
            self._num_outputs_of = n
        else:
            self._num_outputs = n
        return self

    # -- documentation -------------------------------------------------------------------------------------------

    def describe(self, text: str) -> Op:
        """Replace the description."""
        self.description = text
        return self

    def add_argument(self, name: str, type: str, description: str = "") -> Op:
        """Append one documented argument."""
        self.arguments.append(ArgumentInfo(name, type, description))
        return self

    def add_arguments(self, arguments: Iterable[ArgumentInfo]) -> Op:
        """Append documented arguments."""
        self.arguments.extend(arguments)
        return self

    def set_support_level(self, level: int) -> Op:
        """How well the operator is supported; documentation only."""
        self.support_level = level
        return self

    def add_alias(self, alias: str) -> Op:
        """Let the operator be found under another name. AttributeConflictError when another operator has it."""
        with _lock:
            holder = _by_name.setdefault(alias, self)
            if holder is not self:
                raise AttributeConflictError(
                    f"Trying to register alias {alias} for key {self.name} but {alias} is already taken"
                )
            if alias != self.name and alias not in self.aliases:
                self.aliases.append(alias)
        return self

    # -- parameters ----------------------------------------------------------------------------------------------

    def set_attr_parser(self, parser: Callable[[NodeAttrs], None]) -> Op:
        """The function that reads `attrs.dict` and writes `attrs.parsed`; replaces an earlier one."""
        self.attr_parser = parser
        return self

    # -- attributes ----------------------------------------------------------------------------------------------

    def set_attr(self, key: str, value: Any, plevel: int = DEFAULT_PLEVEL) -> Op:
        """Set an attribute; a higher `plevel` replaces a lower one, a lower one is ignored.

        Raises AttributeConflictError for a plevel ≤ 0, a value of another type than the key holds, or an equal plevel.
        """
        if plevel <= 0:
            raise AttributeConflictError("plevel in set_attr must be greater than 0")
        with _lock:
            values = Op.get_attr(key)._values
            held = next(iter(values.values()), None)
            if held is not None and _kind(held[0]) != _kind(value):
                raise AttributeConflictError(
                    f"Attribute {key} of operator {self.name} is registered as inconsistent types "
                    f"previously {_kind(held[0])} current {_kind(value)}"
                )
            current = values.get(self)
            if current is not None and current[1] == plevel:
                raise AttributeConflictError(
                    f"Attribute {key} of operator {self.name} is already registered with same plevel={plevel}"
                )
            if current is None or current[1] < plevel:
                values[self] = (value, plevel)
        return self

    @staticmethod
    def get_attr(key: str) -> OpMap[Any]:
        """The live table of an attribute; created empty the first time a key is asked for."""
        found = _maps.get(key)
        if found is None:
            with _lock:
                found = _maps.setdefault(key, OpMap(key))
        return found

    def include(self, group: str) -> Op:
        """Join a group: all attributes set on it so far, and later, are set on this operator."""
        OpGroup.get(group)._add(self)
        return self

    # -- lookup --------------------------------------------------------------------------------------------------

    @property
    def is_registered(self) -> bool:
        """Whether the operator is in the registry; those that `unregistered` makes are not."""
        return self.index >= 0

    @staticmethod
    def get(name: str) -> Op:
        """The operator of a canonical name or alias. Raises OpNotRegisteredError."""
        found = _by_name.get(name)
        if found is None:
            close = closest_ops(name)
            fix = f". Did you mean {' or '.join(map(repr, close))}?" if close else ""
            reason = why_left_out(name) or fix
            raise OpNotRegisteredError(f"Operator {name} is not registered{reason}")
        return found

    @staticmethod
    def exists(name: str) -> bool:
        """Whether a canonical name or alias is registered."""
        return name in _by_name

    def __repr__(self) -> str:
        return f"<Op {self.name}>"

    def __reduce__(self):
        return get_op, (self.name,)


class OpGroup:
    """A named set of attributes that operators share by `op.include(name)`."""

    __slots__ = ("_members", "_triggers", "name")

    def __init__(self, name: str):
        self.name = name
        self._triggers: list[tuple[str, Any, int]] = []
        self._members: list[Op] = []

    @staticmethod
    def get(name: str) -> OpGroup:
        """The group of a name, made on first use."""
        with _lock:
            return _groups.setdefault(name, OpGroup(name))

    def set_attr(self, key: str, value: Any, plevel: int = GROUP_PLEVEL) -> OpGroup:
        """Set an attribute on every operator that has joined or will join."""
        with _lock:
            self._triggers.append((key, value, plevel))
            for op in self._members:
                op.set_attr(key, value, plevel)
        return self

    def _add(self, op: Op) -> None:
        with _lock:
            for key, value, plevel in self._triggers:
                op.set_attr(key, value, plevel)
            if op not in self._members:
                self._members.append(op)


def register(name: str) -> Op:
    """Register an operator, or get the one that has this name or alias, to add attributes to it."""
    with _lock:
        op = _by_name.get(name)
        if op is None:
            op = Op(name, len(_ops))
            _ops.append(op)
            _by_name[name] = op
        return op


def unregistered(name: str) -> Op:
    """An operator that nothing is known of and that is not in the registry, as tools need it that look at any file.

    It takes any number of inputs; `attrs.parsed` is the number of its outputs, None for one.
    """
    return Op(name, -1).set_num_inputs(None).set_num_outputs(lambda attrs: attrs.parsed or 1)


def declare_left_out(name: str, reason: str) -> None:
    """Say why an operator of MXNet's is not here, for the errors that name it."""
    _left_out[name] = reason


def why_left_out(name: str) -> str:
    """`: ` and why an operator of MXNet's is not here; empty for names that MXNet does not have either."""
    reason = _left_out.get(name)
    return f": {reason}" if reason else ""


def closest_ops(name: str, cutoff: float = 0.6) -> list[str]:
    """The names of registered operators most like one that is not, each operator once."""
    found: dict[Op, str] = {}
    for close in closest(name, _by_name, 8, cutoff):
        found.setdefault(_by_name[close], close)
    return list(found.values())[:3]


get_op = Op.get


def list_all_names() -> list[str]:
    """Every name an operator answers to, aliases included, sorted."""
    return sorted(_by_name)


list_ops = list_all_names


def list_unique_ops() -> list[Op]:
    """Every operator once, in the order of registration."""
    return list(_ops)


# -- the standard attributes -----------------------------------------------------------------------------------------
# Each name below is the attribute's key; the annotation is what a value looks like. `p` stands for `attrs.parsed`.

FListInputNames: OpMap[Callable[[NodeAttrs], Iterable[str]]] = Op.get_attr("FListInputNames")
"""attrs → names of the inputs, for keywords and automatic variables; default `["data"]`."""

TUnlistedInputs: OpMap[bool] = Op.get_attr("TUnlistedInputs")
"""MXNet's operator does not list the names of its inputs: a monitor there calls them `input0`, `input1`, …"""

FListOutputNames: OpMap[Callable[[NodeAttrs], Iterable[str]]] = Op.get_attr("FListOutputNames")
"""attrs → names of all outputs; default `output`, or `output{i}` when there are several."""

FNumVisibleOutputs: OpMap[Callable[[NodeAttrs], int]] = Op.get_attr("FNumVisibleOutputs")
"""attrs → number of leading outputs that users see; default all."""

FMutateInputs: OpMap[Callable[[NodeAttrs], Iterable[int]]] = Op.get_attr("FMutateInputs")
"""attrs → input numbers that the operator writes: auxiliary states; default none."""

FInferShape: OpMap[
    Callable[
        [NodeAttrs, list[Shape | None], list[Shape | None]],
        tuple[Iterable[Shape | None], Iterable[Shape | None]],
    ]
] = Op.get_attr("FInferShape")
"""(attrs, known input shapes, known output shapes) → proposed (inputs, outputs); the pass merges them."""

FInferType: OpMap[
    Callable[
        [NodeAttrs, list[DType | None], list[DType | None]],
        tuple[Iterable[DType | None], Iterable[DType | None]],
    ]
] = Op.get_attr("FInferType")
"""(attrs, known input dtypes, known output dtypes) → proposed (inputs, outputs); default all the same."""

FInferDefaultType: OpMap[
    Callable[
        [NodeAttrs, list[DType | None], list[DType | None]],
        tuple[Iterable[DType | None], Iterable[DType | None]],
    ]
] = Op.get_attr("FInferDefaultType")
"""As FInferType, asked only when nothing else in the graph decides the dtypes of the node: it makes its arrays."""

FGradient: OpMap[Callable[[Node, list[NodeEntry]], Iterable[NodeEntry | None]]] = Op.get_attr("FGradient")
"""(node, head gradients) → one gradient per input; None where nothing flows."""

FSetInputVarAttrOnCompose: OpMap[Callable[[NodeAttrs, Node, int], None]] = Op.get_attr("FSetInputVarAttrOnCompose")
"""(attrs, variable, input number) → None: may write attributes of a variable when it becomes an input."""

FInputGraph: OpMap[Callable[[NodeAttrs], Iterable[int]]] = Op.get_attr("FInputGraph")
"""attrs → input numbers that are graphs; compose moves them to `attrs.subgraphs`."""

FInplaceOption: OpMap[Callable[[NodeAttrs], Iterable[tuple[int, int]]]] = Op.get_attr("FInplaceOption")
"""attrs → (input, output) pairs that may share memory."""

FInplaceIdentity: OpMap[Callable[[NodeAttrs], Iterable[bool]]] = Op.get_attr("FInplaceIdentity")
"""attrs → for each pair of FInplaceOption: sharing is allowed even while the input is in use elsewhere."""

FIgnoreInputs: OpMap[Callable[[NodeAttrs], Iterable[int]]] = Op.get_attr("FIgnoreInputs")
"""attrs → inputs whose content is not read, only their shape or dtype."""

FLossEquivalent: OpMap[Callable[[Node], NodeEntry]] = Op.get_attr("FLossEquivalent")
"""A loss head's node → the scalar whose derivative its gradient is. Marks operators that ignore head gradients."""

TIsBackward: OpMap[bool] = Op.get_attr("TIsBackward")
"""The operator is the backward of `control_deps[0]`; its shapes may be inferred from there."""

TAdjointOf: OpMap[str] = Op.get_attr("TAdjointOf")
"""The operator whose declaration as linear (`ir/linear.py`) this one, its adjoint, was derived from."""

TSupersedes: OpMap[bool] = Op.get_attr("TSupersedes")
"""The operator's first outputs are those of `control_deps[0]`, which need not run where this one does."""

TDataDependentShape: OpMap[bool] = Op.get_attr("TDataDependentShape")
"""The shape of the operator's outputs depends on values, which compiled code does not know."""

FDraws: OpMap[Callable[[NodeAttrs], Literal["always", "training"] | None]] = Op.get_attr("FDraws")
"""attrs → when the operator draws random numbers; default never."""

FDeviation: OpMap[Callable[[NodeAttrs], Deviation | None]] = Op.get_attr("FDeviation")
"""attrs → how a node with these parameters differs from MXNet 1.9.1 where that runs; default not at all."""

FAsksSparse: OpMap[Callable[[NodeAttrs], bool]] = Op.get_attr("FAsksSparse")
"""attrs → whether a node with these parameters asks for sparse storage, or is made for it; all is dense here."""

FNotDerivative: OpMap[Callable[[NodeAttrs], str | None]] = Op.get_attr("FNotDerivative")
"""attrs → why FGradient is, on purpose, not the derivative of the outputs everywhere; default: it is."""

THasDeterministicOutput: OpMap[bool] = Op.get_attr("THasDeterministicOutput")
"""Whether equal inputs give equal outputs; default True. False: the operator draws random numbers, or may."""

TFileName: OpMap[str] = Op.get_attr("TFileName")
"""The operator's name in files, where it is not its own."""

FWorkspace: OpMap[Callable[[NodeAttrs, Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]], int]] = Op.get_attr(
    "FWorkspace"
)
"""(attrs, input shapes, output shapes), all known → elements that running the operator holds beyond those, such as
padded copies; default 0."""

FSubgraphRuns: OpMap[Callable[[Any, NodeAttrs, Sequence[Any]], list[tuple[list[Any], int]]]] = Op.get_attr(
    "FSubgraphRuns"
)
"""(what is inferred, attrs, its values of the inputs) → of each subgraph: the values of its variables, and how often it
runs at most."""

FNumFileOutputs: OpMap[Callable[[NodeAttrs], int]] = Op.get_attr("FNumFileOutputs")
"""attrs → outputs that MXNet's wheel counts in `node_row_ptr`, where its hidden ones are not ours: oneDNN's workspaces
there, what gradients read here. Nothing reads that table of a file."""
