"""Checks of arguments at the public functions: counts such as sizes and steps, flags, and kinds of values."""

from __future__ import annotations

import functools
import numbers
import operator
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, ParamSpec, SupportsFloat, SupportsIndex, TypeVar, Union

import numpy as np

from symjax_nnvm.errors import NNVMError, ParamError
from symjax_nnvm.ir.types import DTYPE_CODES, DType, dtype_name

P = ParamSpec("P")
R = TypeVar("R")


class CountError(ParamError, TypeError):
    """Reports a count that is too small, or a value that is not a count."""


class KindError(ParamError, TypeError):
    """Reports an argument of another kind than the parameter's."""


def check_count(number: Any, param: str, least: int = 1) -> int:
    """Return a whole number as Python's. Raises CountError for one below `least`, and for anything else."""
    try:
        count = operator.index(number)
    except TypeError:
        count = least - 1
    if count < least:
        raise CountError("Wrong number", param=param, expected=f"a whole number ≥ {least}", got=f"{number!r:.80}")
    return count


def check_flag(value: Any, param: str) -> bool:
    """Return True or False; 0 and 1 are these. Raises ParamError for anything else."""
    if not isinstance(value, bool | np.bool_ | int) or value not in (0, 1):
        raise ParamError("Wrong value", param=param, expected="True or False", got=f"{value!r:.80}")
    return bool(value)


def checked_dtype(dtype: Any, owner: str) -> DType:
    """Return the name of a dtype. owner: what has it. Raises KindError, a TypeError, for a dtype that MXNet lacks."""
    try:
        return dtype_name(dtype)
    except ValueError:
        expected = f"one of {', '.join(DTYPE_CODES)}"
        raise KindError(f"Wrong dtype of {owner}", param="dtype", expected=expected, got=f"{dtype!r:.80}") from None


def checks_flags(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check that arguments annotated as flags, mappings, iterables or functions are such.

    A flag may be a whole number, as in MXNet, but not text: "False" would be true. None is accepted everywhere. When
    the function itself stops with a TypeError or another error of Python's, the error names the argument that does
    not fit its annotation. Raises KindError.
    """
    code, called = function.__code__, function.__qualname__
    positions = {name: i for i, name in enumerate(code.co_varnames[: code.co_argcount])}
    kinds = {name: _EAGERLY.get(kind.partition("[")[0]) for name, kind in function.__annotations__.items()}
    checks = [
        (name, positions.get(name, sys.maxsize), kind) for name, kind in kinds.items() if kind and name != "return"
    ]

    def refused(args: tuple[Any, ...], name: str, value: object, what: str, expected: str) -> KindError:
        door = type(args[0]).__name__ if function.__name__ == "__init__" else called
        return KindError(f"Wrong {what} of {door}", param=name, expected=expected, got=f"{value!r:.80}")

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, place, (what, expected, types) in checks:
            value = kwargs.get(name) if place >= len(args) else args[place]
            if value is not None and not isinstance(value, types):
                raise refused(args, name, value, what, expected)
        try:
            return function(*args, **kwargs)
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            if isinstance(error, NNVMError):
                raise
            for name, value in {**dict(zip(positions, args, strict=False)), **kwargs}.items():
                if (expected := _other_kind(function, name, value)) is not None:
                    raise refused(args, name, value, "argument", expected) from None
            raise

    return checked


_FLAG = ("value of a flag", "True or False", (bool, np.bool_, numbers.Integral))
_MAPPING = ("argument", "a dict", (Mapping,))
_EAGERLY = dict.fromkeys(("bool", "bool | None", "bool | int"), _FLAG) | {
    "Mapping": _MAPPING,
    "dict": _MAPPING,
    "Callable": ("argument", "a function", (Callable,)),
    "Iterable": ("argument", "an iterable", (Iterable,)),
}
"""Of annotations, without what stands in brackets: what is wrong, what is expected, and its types."""


def _other_kind(function: Callable[..., Any], name: str, value: Any) -> str | None:
    """Return the annotation of a parameter where a value is certainly not of its kind; else None."""
    annotation = function.__annotations__.get(name)
    if annotation is None or value is None:
        return None
    try:
        kind = eval(annotation, function.__globals__)
    except NameError:  # imported for the type checker alone
        return None
    return None if _may_be(value, kind) else annotation


def _may_be(value: Any, kind: Any) -> bool:
    """Return whether a value may be of a kind: a class, a union, or a class with what stands in brackets."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, UnionType):
        return any(_may_be(value, part) for part in parts)
    kind = _LIKE.get(kind, origin or kind)
    if kind is Any or not isinstance(kind, type):
        return True
    if not isinstance(value, kind) or (isinstance(value, str) and kind is not str):
        return False
    several = origin in (Sequence, Iterable, list) and isinstance(value, list | tuple)
    return not several or all(_may_be(item, parts[0]) for item in value)


_LIKE = {int: SupportsIndex, float: SupportsFloat}
"""Protocols of what is as good as a number of Python's."""


def check_counts(sizes: Any, param: str, least: int = 1) -> tuple[int, ...]:
    """Return whole numbers, such as a shape, as a tuple. sizes: one number, or several. Raises CountError."""
    is_one = isinstance(sizes, str) or not isinstance(sizes, Iterable) or getattr(sizes, "ndim", 1) == 0
    several = (sizes,) if is_one else sizes
    try:
        return tuple(check_count(size, param, least) for size in several)
    except CountError:
        raise CountError(
            "Wrong sizes", param=param, expected=f"whole numbers ≥ {least}", got=f"{sizes!r:.80}"
        ) from None


def check_positive(number: Any, param: str) -> None:
    """Raise CountError for anything that is not a number above 0."""
    if not isinstance(number, numbers.Real) or not float(number) > 0:
        raise CountError("Wrong number", param=param, expected="a number > 0", got=f"{number!r:.80}")


def check_number(number: Any, param: str) -> None:
    """Raise CountError for anything that is not a number: a text is none."""
    try:
        if isinstance(number, str):
            raise TypeError
        float(number)
    except (TypeError, ValueError):
        raise CountError("This is not a number", param=param, expected="a number", got=f"{number!r:.80}") from None


def named_values(values: Any, param: str) -> dict[str, Any]:
    """Return values by name, given as a dict, as pairs, or None for none. Raises CountError for anything else."""
    try:
        return dict(values or {})
    except (TypeError, ValueError):
        expected = "a dict, or pairs of a name and a value"
        raise CountError(
            "Values must be given by name", param=param, expected=expected, got=f"{values!r:.80}"
        ) from None


def paired(names: Iterable[Any], values: Any, what: str, names_are: str) -> list[tuple[Any, Any]]:
    """Return each name with its value. what, names_are: what the values are, and what the names are those of, for the
    CountError that is raised where there are more of the ones or the others."""
    names = list(names)
    several = list(values) if isinstance(values, Iterable) else [values]
    if len(several) != len(names):
        raise CountError(f"{len(several)} {what} for {len(names)} {names_are}", expected="one for each")
    return list(zip(names, several, strict=True))
