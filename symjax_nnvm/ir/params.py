"""Typed operator parameters: the only place where strings become values and values become strings.

An operator declares its parameters as a subclass of `Params`, or as any frozen dataclass; `ParamSchema` reads the
annotations and parses what users, files and gradient rules give. Accepted spellings are those of MXNet's parameter
parser, plus surrounding blanks.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import numpy as np

from symjax_nnvm.errors import ParamError, cut, did_you_mean
from symjax_nnvm.ir.types import MAX_RANK, dtype_name

__all__ = [
    "MAX_COUNT",
    "Axes",
    "Axis",
    "ParamField",
    "ParamSchema",
    "Params",
    "Tuple",
    "param",
    "schema_of",
    "value_to_text",
]

Tuple = tuple[int, ...]
"""Annotation of a tuple-of-integers parameter (MXNet's `Shape(tuple)`)."""


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Holds bounds that every parameter of a type has."""

    ge: float
    le: float


Axis = Annotated[int, Bounds(ge=-MAX_RANK, le=MAX_RANK)]
"""Annotation of a parameter that names an axis, or a place between axes. No array has more axes; the bound keeps rules
from making 10⁹ of them."""

Axes = tuple[Axis, ...]
"""Annotation of a parameter that names several."""


MAX_COUNT = 1 << 16
"""The bound of parameters that count inputs or outputs: a number in a file must not decide how much there is to do."""

_MAX_CACHED = 4096
_MAX_CACHED_TEXT = 4096  # characters of a node's attributes; longer ones are rare and not kept
_MAX_TEXT = 1 << 16  # characters of one parameter; MXNet's own files stay far below


def param(
    default: Any = dataclasses.MISSING,
    *,
    doc: str = "",
    fix: str | None = None,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    alias: str | None = None,
) -> Any:
    """Declare a parameter of an operator.

    The bounds hold for a number, or for every element of a tuple.

    Args:
        default: the default; the parameter is required without one.
        doc: one line of documentation.
        fix: the way out where a text is not a value of it.
        ge: the lowest value.
        gt: the bound that values lie above.
        le: the highest value.
        lt: the bound that values lie below.
        alias: a second name that callers may use; nodes store the first.
    """
    bounds = {"ge": ge, "gt": gt, "le": le, "lt": lt}
    return dataclasses.field(
        default=default,
        metadata={
            "doc": doc,
            "remedy": fix,
            "alias": alias,
            "bounds": {k: v for k, v in bounds.items() if v is not None},
        },
    )


@typing.dataclass_transform(kw_only_default=True, frozen_default=True)
class Params:
    """An operator's parameters: the annotated names of a subclass, which is a frozen dataclass of keywords.

    What `dataclasses` would write and compile for each of the two hundred, a third of the time that importing this
    package takes, is written once in this class.
    """

    _defaults: typing.ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        cls.__doc__ = cls.__doc__ or cls.__name__  # else `dataclasses` computes the signature, to make one
        dataclass: Any = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
        cls._defaults = {field.name: field.default for field in dataclasses.fields(dataclass)}

    def __init__(self, **values: Any):
        fields = {**self._defaults, **values}
        if len(fields) > len(self._defaults) or dataclasses.MISSING in fields.values():
            raise TypeError(f"{type(self).__name__}({', '.join(self._defaults)}) got {', '.join(values) or 'nothing'}")
        self.__dict__.update(fields)

    def _values(self) -> tuple[Any, ...]:
        return tuple([self.__dict__[name] for name in self._defaults])

    def __repr__(self) -> str:
        pairs = zip(self._defaults, self._values(), strict=True)
        return f"{type(self).__qualname__}({', '.join([f'{name}={value!r}' for name, value in pairs])})"

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __setattr__(self, name: str, value: Any) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


# -- one parser per type ---------------------------------------------------------------------------------------------

_MAX_DIGITS = 1000  # characters of one number, leading zeros included: 64 bits, or a double in full, are fewer
# Each pattern reads untrusted text. No two of its parts can take the same characters, so that matching is linear.
_INT = re.compile(r"[+-]?[0-9]+")
_PYTHON2_LONG = re.compile(r"([+-]?[0-9]+)L")
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?"
_FLOAT = re.compile(rf"{_NUMBER}f?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE)
_PLAIN_FLOAT = re.compile(_NUMBER, re.IGNORECASE)
_TUPLE = re.compile(r"[(\[](.*)[)\]]", re.DOTALL)
_INNER = re.compile(r"[(\[][^()\[\]]*[)\]]")  # a tuple in a tuple of them


def _parse_bool(text: str) -> bool:
    match text.lower():
        case "true" | "1":
            return True
        case "false" | "0":
            return False
    raise ValueError(text)


def _parse_int(text: str) -> int:
    if len(text) > _MAX_DIGITS or not _INT.fullmatch(text):
        raise ValueError(text)
    value = int(text)
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(text)
    return value


def _parse_long(text: str) -> int:
    """Return an int, or one as Python 2 wrote it: `2L`."""
    match = _PYTHON2_LONG.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    return _parse_int(text if match is None else match[1])


def _parse_float(text: str) -> float:
    if len(text) > _MAX_DIGITS or not _FLOAT.fullmatch(text):
        raise ValueError(text)
    if "n" in text.lower():  # inf, infinity, nan
        return float(text)
    number = text.rstrip("fF")
    value = float(number)
    mantissa = number.lower().partition("e")[0]
    if math.isinf(value) or (value == 0 and mantissa.strip("+-.0")):
        raise ValueError(f"{text} over- or underflows")
    return value


def _parse_plain_float(text: str) -> float:
    if len(text) > _MAX_DIGITS or not _PLAIN_FLOAT.fullmatch(text):
        raise ValueError(text)
    return _parse_float(text)


def _parse_str(text: str) -> str:
    return text


def _tuple_parser(element: Callable[[str], Any], bare: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def parse(text: str) -> tuple[Any, ...]:
        match = _TUPLE.fullmatch(text)
        if match is None:
            return (bare(text),)
        items = match[1].split(",")
        if not items[-1].strip():
            items.pop()
        return tuple(element(item.strip()) for item in items)

    return parse


def _tuples_parser(inner: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def parse(text: str) -> tuple[Any, ...]:
        between = _INNER.sub("", text[1:-1])
        if text[:1] not in ("(", "[") or text[-1:] not in (")", "]") or between.strip(", "):
            raise ValueError(text)
        return tuple(inner(match) for match in _INNER.findall(text[1:-1]))

    return parse


def _enum_parser(choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse


def _bounds_of(annotation: Any) -> dict[str, float]:
    """Return the bounds that a type brings along: `Axis`, also inside a tuple or where None is allowed."""
    args = typing.get_args(annotation)
    if typing.get_origin(annotation) is Annotated:
        return next((dataclasses.asdict(extra) for extra in args[1:] if isinstance(extra, Bounds)), {})
    bounds: dict[str, float] = {}
    for arg in args:
        bounds |= _bounds_of(arg)
    return bounds


def _optional(parser: Callable[[str], Any]) -> Callable[[str], Any]:
    spellings = ("None", "none") if parser is _parse_bool else ("None",)
    parser = _OPTIONAL_FORMS.get(parser, parser)
    return lambda text: None if text in spellings else parser(text)


def _or_left_out(parser: Callable[[str], Any], default: object) -> Callable[[str], Any]:
    """Return a parser of a tuple that None leaves out: MXNet reads it as an unknown shape."""
    return lambda text: default if text == "None" else parser(text)


# MXNet reads optional numbers with another parser than required ones.
_OPTIONAL_FORMS: dict[Callable[[str], Any], Callable[[str], Any]] = {
    _parse_int: _parse_long,
    _parse_float: _parse_plain_float,
}


def _type_parser(annotation: Any) -> tuple[Callable[[str], Any], str]:
    """Return a parser and the type's description for people."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if origin is Literal:
        return _enum_parser(args), "one of " + ", ".join(repr(choice) for choice in args)
    if origin is tuple:
        parser, description = _type_parser(args[0])
        if typing.get_origin(args[0]) is tuple:
            return _tuples_parser(parser), f"tuple of {description}"
        return _tuple_parser(_parse_long if parser is _parse_int else parser, parser), f"tuple of {description}"
    if origin in (typing.Union, types.UnionType) and type(None) in args:
        (inner,) = (arg for arg in args if arg is not type(None))
        parser, description = _type_parser(inner)
        return _optional(parser), f"{description} or None"
    raise TypeError(f"no parameter type {annotation}")


_SCALARS: dict[Any, tuple[Callable[[str], Any], str]] = {
    bool: (_parse_bool, "boolean"),
    int: (_parse_int, "int"),
    float: (_parse_float, "float"),
    str: (_parse_str, "string"),
}

# -- values to text --------------------------------------------------------------------------------------------------


class _LeftOut:
    """The type of `LEFT_OUT`."""

    def __repr__(self) -> str:
        return "_Null"


LEFT_OUT = _LeftOut()
"""Marks, in place of a parameter's value, that the parameter is left out."""

_PLAIN = frozenset({str, int, bool, float, type(None)})


def value_to_text(value: object) -> str:
    """Return `str(value)` as Python 3 and MXNet write it, for values of any NumPy type."""
    if type(value) in _PLAIN:
        return str(value)
    match value:
        case str():
            return value
        case tuple() | list():
            items = [value_to_text(item) for item in value]
            if isinstance(value, list):
                return f"[{', '.join(items)}]"
            return f"({', '.join(items)},)" if len(items) == 1 else f"({', '.join(items)})"
        case np.ndarray():
            return value_to_text(list(value) if value.ndim else value[()])
        case type() | np.dtype():
            return dtype_name(value)
    return str(value)


_BOUND_TEXT = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_BOUND_TEST: dict[str, Callable[[Any, Any], bool]] = {
    "ge": lambda value, bound: value >= bound,
    "gt": lambda value, bound: value > bound,
    "le": lambda value, bound: value <= bound,
    "lt": lambda value, bound: value < bound,
}


@dataclasses.dataclass(frozen=True)
class ParamField:
    """One parameter of an operator."""

    name: str
    annotation: Any
    type: str
    parse: Callable[[str], Any]
    required: bool
    default: Any
    bounds: Mapping[str, float]
    doc: str
    fix: str | None
    alias: str | None

    @property
    def expected(self) -> str:
        """Return the values that the parameter takes, for error messages: `int ≥ 1`."""
        return " ".join([self.type, *(f"{_BOUND_TEXT[kind]} {bound:g}" for kind, bound in self.bounds.items())])

    @property
    def choices(self) -> tuple[Any, ...]:
        """Return the values of a parameter that has a few; else none."""
        members = typing.get_args(self.annotation) if typing.get_origin(self.annotation) is not Literal else ()
        literals = [
            annotation for annotation in (self.annotation, *members) if typing.get_origin(annotation) is Literal
        ]
        return tuple(choice for literal in literals for choice in typing.get_args(literal))

    def admits(self, value: Any) -> bool:
        """Return whether a parsed value respects the bounds."""
        values = value if isinstance(value, tuple) else (value,)
        return all(
            _BOUND_TEST[kind](item, bound) for kind, bound in self.bounds.items() for item in values if item is not None
        )


class ParamSchema:
    """The parameters of one operator: fields in declaration order, and a cache of parsed values.

    A class may define `check(self) -> str | None`, which returns what is wrong with a combination of values. When it
    inherits some fields, `positional` may list all names in the order in which callers pass them by position. Where
    MXNet reads files with keys that mean nothing to the operator, `any_key = True` leaves them alone.
    """

    def __init__(self, cls: type):
        declared = {field.name: field for field in dataclasses.fields(cls)}
        self.cls = cls
        self.names: tuple[str, ...] = tuple(getattr(cls, "positional", declared))
        self.any_key: bool = getattr(cls, "any_key", False)
        self._cache: dict[tuple[tuple[str, str], ...], Any] = {}

    @functools.cached_property
    def fields(self) -> dict[str, ParamField]:
        """The fields by name, read from the class at first use: reading those of all operators takes 0.2 s."""
        hints = typing.get_type_hints(self.cls, include_extras=True)
        bounds = {name: _bounds_of(hint) for name, hint in hints.items()}
        if any(bounds.values()):
            hints = typing.get_type_hints(self.cls)
        fields: dict[str, ParamField] = {}
        declared = {field.name: field for field in dataclasses.fields(self.cls)}
        for field in (declared[name] for name in self.names):
            parser, description = _type_parser(hints[field.name])
            required = field.default is dataclasses.MISSING
            default: Any = None if required else field.default
            if typing.get_origin(hints[field.name]) is tuple and not required:
                parser = _or_left_out(parser, default)
            fields[field.name] = ParamField(
                name=field.name,
                annotation=hints[field.name],
                type=description,
                parse=parser,
                required=required,
                default=default,
                bounds=bounds[field.name] | dict(field.metadata.get("bounds", {})),
                doc=field.metadata.get("doc", ""),
                fix=field.metadata.get("remedy"),
                alias=field.metadata.get("alias"),
            )
        return fields

    @functools.cached_property
    def aliases(self) -> dict[str, str]:
        """The names of fields by their other names."""
        return {field.alias: field.name for field in self.fields.values() if field.alias}

    @functools.cached_property
    def _required(self) -> list[str]:
        return [field.name for field in self.fields.values() if field.required]

    def canonical(self, key: str) -> str:
        """Return the name a node stores for a parameter."""
        return self.aliases.get(key, key)

    def parse(self, attrs: Mapping[str, str], op: str, node: str = "") -> Any:
        """Parse strings into an instance of the dataclass. Keys of the form `__x__` are the user's and left alone.

        Raises ParamError naming the parameter, what it takes and what came.
        """
        items = tuple(attrs.items())
        try:
            parsed = self._cache.get(items)
        except TypeError:  # an unhashable value is not text
            return self._parse(attrs, op, node)
        if parsed is None:
            parsed = self._parse(attrs, op, node)
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            if sum(len(key) + len(text) for key, text in items) <= _MAX_CACHED_TEXT:
                self._cache[items] = parsed
        return parsed

    def _parse(self, attrs: Mapping[str, str], op: str, node: str) -> Any:
        shown = cut(f"{op}({', '.join([f'name={node!r}', *(f'{k}={v!r}' for k, v in attrs.items())])})")
        values: dict[str, Any] = {}
        for key, text in attrs.items():
            field = self.fields.get(self.canonical(key))
            if field is None:
                if self.any_key or (len(key) >= 5 and key.startswith("__") and key.endswith("__")):
                    continue
                raise self.unknown(key, op, node)
            values[field.name] = self._parse_field(field, text, op, node, shown)
        for name in self._required:
            if name not in values:
                raise ParamError(
                    f"Required parameter {name} of {self.fields[name].type} is not presented, in operator {shown}",
                    fix=f"Pass {name}=.",
                )
        parsed = self.cls(**values)
        check = getattr(parsed, "check", None)
        problem = check() if check is not None else None
        if problem:
            raise ParamError(problem, op=op, node=node, got=shown)
        return parsed

    def unknown(self, key: str, op: object, node: object) -> ParamError:
        """Return the error for a key that is neither a parameter nor an attribute of the user's."""
        fix = _closest_key(key, (*self.fields, *self.aliases))
        return ParamError(
            f"Cannot find argument '{cut(key)}', Possible Arguments: {', '.join(self.fields) or 'none'}",
            op=op,
            node=node,
            fix=f"{fix} An attribute of your own must be spelled __{cut(key.strip('_'))}__.".lstrip(),
        )

    def _parse_field(self, field: ParamField, text: str, op: str, node: str, shown: str) -> Any:
        if not isinstance(text, str):
            raise ParamError("A parameter must be text", op=op, node=node, param=field.name, got=repr(text))
        if len(text) > _MAX_TEXT:
            raise ParamError("Parameter too long", op=op, node=node, param=field.name, got=f"{len(text)} characters")
        try:
            value = field.parse(text.strip() if field.annotation is not str else text)
        except ValueError:
            raise ParamError(
                f"Invalid Parameter format for {field.name} expect {field.expected} but value='{cut(text)}', "
                f"in operator {shown}",
                fix=did_you_mean(text, map(str, field.choices)) or field.fix,
            ) from None
        if not field.admits(value):
            raise ParamError(
                f"Value {cut(text)} for Parameter {field.name} is out of range",
                op=op,
                node=node,
                param=field.name,
                expected=field.expected,
                got=cut(text),
            )
        return value


@functools.lru_cache(maxsize=256)  # a file has the same unknown key in all nodes of an operator
def _closest_key(key: str, keys: tuple[str, ...]) -> str:
    return did_you_mean(key, keys)


_schemas: dict[type, ParamSchema] = {}


def schema_of(cls: type) -> ParamSchema:
    """Return the schema of a parameter dataclass, made once per class."""
    schema = _schemas.get(cls)
    if schema is None:
        schema = _schemas[cls] = ParamSchema(cls)
    return schema
