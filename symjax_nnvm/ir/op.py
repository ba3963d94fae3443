"""Op, OpMap, OpGroup and the operator registry (NNVM's `op.h`).

An `Op` is data: name, aliases, description, arguments, arity, parameter parser. All other knowledge about operators is
an *attribute* under an open key (`FInferShape`, `FGradient`, …, any new one), kept in one live `OpMap` per key. Writes
take a lock; reads do not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from symjax_nnvm.errors import AttributeConflictError, GraphError, OpNotRegisteredError, closest

if TYPE_CHECKING:
    from symjax_nnvm.ir.node import NodeAttrs
    from symjax_nnvm.ir.params import ParamSchema

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
    """A difference of an operator from MXNet 1.9.1. affects: its outputs, or only gradients and training. when: it
    applies if when(params); None: always."""

    what: str
    affects: Literal["outputs", "training"] = "outputs"
    when: Callable[[Any], bool] | None = None


class OpMap(dict["Op | None", T]):
    """One attribute of all operators: a live table, operator → value, which `Op.set_attr` fills.

    The key None, which stands for a variable, has no value.

    Attributes:
        levels: the priority with which each value was set.
    """

    __slots__ = ("key", "levels")

    def __init__(self, key: str):
        super().__init__()
        self.key = key
        self.levels: dict[Op, int] = {}

    def __missing__(self, op: Op | None) -> T:
        """Raises GraphError: the operator is None or has no value."""
        if op is None:
            raise GraphError(f"Attribute {self.key} was asked of a variable, which has no operator.")
        raise GraphError(f"Attribute {self.key} has not been registered for Operator {op.name}")

    def count(self, op: Op | None) -> int:
        """Return 1 when the operator has a value, else 0."""
        return int(op in self)

    def contains(self, op: Op | None) -> bool:
        """Return whether the operator has a value."""
        return op in self

    def __repr__(self) -> str:
        return f"<OpMap {self.key}: {len(self)} operators>"


def _kind(value: object) -> str:
    """Return the type of an attribute value, where all callables are of one kind."""
    return "function" if callable(value) else type(value).__name__


class Op:
    """An operator, which `register` makes. Setters return the operator, so that calls chain as in NNVM.

    Attributes:
        index: the registration number.
        aliases: other names of the operator; they never appear in graphs or files.
        params: the schema of its typed parameters, if it was declared with one.
        inputs: names of all declared tensor inputs, whether or not the parameters use each.
        key_var_num_args: the parameter that holds the number of positional inputs of a variadic operator.
    """

    __slots__ = (
        "_arguments",
        "_more_arguments",
        "_num_inputs",
        "_num_inputs_of",
        "_num_outputs",
        "_num_outputs_of",
        "aliases",
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
        self._arguments: list[ArgumentInfo] = []
        self._more_arguments: list[Iterable[ArgumentInfo]] = []
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
        """Return the number of inputs with these attributes; None for any number (NNVM's kVarg)."""
        return self._num_inputs if self._num_inputs_of is None else self._num_inputs_of(attrs)

    def num_outputs(self, attrs: NodeAttrs) -> int:
        """Return the number of outputs with these attributes, hidden ones included."""
        return self._num_outputs if self._num_outputs_of is None else self._num_outputs_of(attrs)

    @property
    def fixed_num_inputs(self) -> int | None:
        """Return the number of inputs; None where a function of the attributes decides it."""
        return self._num_inputs if self._num_inputs_of is None else None

    @property
    def fixed_num_outputs(self) -> int | None:
        """Return the number of outputs; None where a function of the attributes decides it."""
        return self._num_outputs if self._num_outputs_of is None else None

    def set_num_inputs(self, n: int | Callable[[NodeAttrs], int | None] | None) -> Op:
        """Set the number of inputs.

        Args:
            n: a number, None for any number, or a function of the attributes; a function wins over a number.
        """
        if callable(n):
            self._num_inputs_of = n
        else:
            self._num_inputs = n
        return self

    def set_num_outputs(self, n: int | Callable[[NodeAttrs], int]) -> Op:
        """Set the number of outputs.

        Args:
            n: a number, or a function of the attributes; a function wins over a number.
        """
        if callable(n):
            self._num_outputs_of = n
        else:
            self._num_outputs = n
        return self

    # -- documentation -------------------------------------------------------------------------------------------

    @property
    def arguments(self) -> list[ArgumentInfo]:
        """The documentation of the arguments, in their order."""
        with _lock:
            while self._more_arguments:
                self._arguments.extend(self._more_arguments.pop(0))
        return self._arguments

    def describe(self, text: str) -> Op:
        """Replace the operator's description."""
        self.description = text
        return self

    def add_argument(self, name: str, type: str, description: str = "") -> Op:
        """Append the documentation of one argument.

        Args:
            name: the argument's name.
            type: its type, as text.
            description: what it is for.
        """
        return self.add_arguments([ArgumentInfo(name, type, description)])

    def add_arguments(self, arguments: Iterable[ArgumentInfo]) -> Op:
        """Append the documentation of several arguments; an iterator is read when somebody reads `arguments`."""
        self._more_arguments.append(arguments)
        return self

    def set_support_level(self, level: int) -> Op:
        """Set how well the operator is supported; only documentation uses the number."""
        self.support_level = level
        return self

    def add_alias(self, alias: str) -> Op:
        """Give the operator another name.

        Raises:
            AttributeConflictError: another operator has the name.
        """
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
        """Set the function that reads `attrs.dict` and writes `attrs.parsed`; it replaces an earlier one."""
        self.attr_parser = parser
        return self

    # -- attributes ----------------------------------------------------------------------------------------------

    def set_attr(self, key: str, value: Any, plevel: int = DEFAULT_PLEVEL) -> Op:
        """Set an attribute of the operator.

        Args:
            key: the attribute's name.
            value: its value.
            plevel: the priority, above 0; a value of a lower priority than the present one's is ignored.

        Raises:
            AttributeConflictError: `plevel` is not above 0 or equals that of the present value, or the attribute's
                values have another type.
        """
        if plevel <= 0:
            raise AttributeConflictError("plevel in set_attr must be greater than 0")
        with _lock:
            values = Op.get_attr(key)
            for other_value in islice(values.values(), 1):
                if _kind(other_value) != _kind(value):
                    raise AttributeConflictError(
                        f"Attribute {key} of operator {self.name} is registered as inconsistent types "
                        f"previously {_kind(other_value)} current {_kind(value)}"
                    )
            current = values.levels.get(self, 0)
            if current == plevel:
                raise AttributeConflictError(
                    f"Attribute {key} of operator {self.name} is already registered with same plevel={plevel}"
                )
            if current < plevel:
                values[self], values.levels[self] = value, plevel
        return self

    @staticmethod
    def get_attr(key: str) -> OpMap[Any]:
        """Return the live table of an attribute, which is empty at first."""
        attribute = _maps.get(key)
        if attribute is None:
            with _lock:
                attribute = _maps.setdefault(key, OpMap(key))
        return attribute

    def include(self, group: str) -> Op:
        """Add the operator to a group, which gives it all attributes that are set on the group, earlier or later."""
        OpGroup.get(group)._add(self)
        return self

    # -- lookup --------------------------------------------------------------------------------------------------

    @property
    def is_registered(self) -> bool:
        """Return whether the operator is in the registry; one that `unregistered` makes is not."""
        return self.index >= 0

    @staticmethod
    def get(name: str) -> Op:
        """Return the operator with a name.

        Args:
            name: the canonical name or an alias.

        Raises:
            OpNotRegisteredError: no operator has the name.
        """
        op = _by_name.get(name)
        if op is None:
            close = closest_ops(name)
            fix = f". Did you mean {' or '.join(map(repr, close))}?" if close else ""
            reason = why_left_out(name) or fix
            raise OpNotRegisteredError(f"Operator {name} is not registered{reason}")
        return op

    @staticmethod
    def exists(name: str) -> bool:
        """Return whether an operator has this canonical name or alias."""
        return name in _by_name

    def __repr__(self) -> str:
        return f"<Op {self.name}>"

    def __reduce__(self):
        return get_op, (self.name,)


class OpGroup:
    """A set of attributes that operators share; an operator joins with `op.include(name)`."""

    __slots__ = ("_members", "_triggers", "name")

    def __init__(self, name: str):
        self.name = name
        self._triggers: list[tuple[str, Any, int]] = []
        self._members: list[Op] = []

    @staticmethod
    def get(name: str) -> OpGroup:
        """Return the group with a name; it is made when it is first used."""
        with _lock:
            return _groups.setdefault(name, OpGroup(name))

    def set_attr(self, key: str, value: Any, plevel: int = GROUP_PLEVEL) -> OpGroup:
        """Set an attribute on every operator that has joined the group or will join it.

        Args:
            key: the attribute's name.
            value: its value.
            plevel: the priority; see `Op.set_attr`.
        """
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
    """Return an operator without facts that is not in the registry, for tools that read any file.

    It takes any number of inputs; `attrs.parsed` is the number of its outputs, None for one.
    """
    return Op(name, -1).set_num_inputs(None).set_num_outputs(lambda attrs: attrs.parsed or 1)


def declare_left_out(name: str, reason: str) -> None:
    """Declare why this library lacks an operator of MXNet, or of a fork of it, for the errors that name it."""
    _left_out[name] = reason


def why_left_out(name: str) -> str:
    """Return `: ` and why this library lacks an operator of MXNet or of a fork; empty for names that neither has."""
    reason = _left_out.get(name) or (_left_out.get("_backward") if "_backward" in name else None)
    return f": {reason}" if reason else ""


def closest_ops(name: str, cutoff: float = 0.6) -> list[str]:
    """Return the names of registered operators most like one that is not, each operator once; those that begin with _
    where no others are, or the name does."""
    matches: dict[Op, str] = {}
    for close in closest(name, _by_name, 8, cutoff):
        matches.setdefault(_by_name[close], close)
    public = [close for close in matches.values() if not close.startswith("_")]
    return (list(matches.values()) if name.startswith("_") else public or list(matches.values()))[:3]


get_op = Op.get


def list_all_names() -> list[str]:
    """Return every name an operator answers to, aliases included, sorted."""
    return sorted(_by_name)


list_ops = list_all_names


def list_unique_ops() -> list[Op]:
    """Return every operator once, in the order of registration."""
    return list(_ops)
