"""Numbers that count something, such as sizes and steps, and flags are checked where they come in."""

from __future__ import annotations

import functools
import numbers
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from symjax_nnvm.errors import ParamError

_FLAGS = ("bool", "bool | None", "bool | int")
"""Annotations of flags."""

P = ParamSpec("P")
R = TypeVar("R")


class CountError(ParamError, TypeError):
    """Reports a number that is too small for what it counts, or something that is no such number."""


def check_count(number: Any, param: str, least: int = 1) -> int:
    """Return a whole number as Python's. Raises CountError for one below `least`, and for what is none."""
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


def checks_flags(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that refuses, for its parameters that are annotated `bool`, a text or what else is no flag.

    The text "False" would be true. None and whole numbers are taken, as MXNet's functions do. Raises ParamError.
    """
    code, called = function.__code__, function.__qualname__.removesuffix(".__init__")
    positions = {name: i for i, name in enumerate(code.co_varnames[: code.co_argcount])}
    annotated = [
        name for name, kind in function.__annotations__.items() if kind in ("bool", "bool | None", "bool | int")
    ]
    flags = [(name, positions.get(name, sys.maxsize)) for name in annotated if name != "return"]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, place in flags:
            value = kwargs.get(name) if place >= len(args) else args[place]
            if value is not None and not isinstance(value, bool | np.bool_ | numbers.Integral):
                problem = f"Wrong value of a flag of {called}"
                raise ParamError(problem, param=name, expected="True or False", got=f"{value!r:.80}")
        return function(*args, **kwargs)

    return checked


def check_counts(sizes: Any, param: str, least: int = 1) -> tuple[int, ...]:
    """Return whole numbers, such as a shape, as a tuple. sizes: one number, or several. Raises CountError."""
    several = sizes if isinstance(sizes, Iterable) and not isinstance(sizes, str) else (sizes,)
    try:
        return tuple(check_count(size, param, least) for size in several)
    except CountError:
        raise CountError(
            "Wrong sizes", param=param, expected=f"whole numbers ≥ {least}", got=f"{sizes!r:.80}"
        ) from None


def check_positive(number: Any, param: str) -> None:
    """Raise CountError for what is no number above 0."""
    if not isinstance(number, numbers.Real) or not float(number) > 0:
        raise CountError("Wrong number", param=param, expected="a number > 0", got=f"{number!r:.80}")


def check_number(number: Any, param: str) -> None:
    """Raise CountError for what is no number: a text is none."""
    try:
        if isinstance(number, str):
            raise TypeError
        float(number)
    except (TypeError, ValueError):
        raise CountError("This is not a number", param=param, expected="a number", got=f"{number!r:.80}") from None


def named_values(given: Any, param: str) -> dict[str, Any]:
    """Return values by name, given as a dict, as pairs, or None for none. Raises CountError for anything else."""
    try:
        return dict(given or {})
    except (TypeError, ValueError):
        expected = "a dict, or pairs of a name and a value"
        raise CountError("These are no values by name", param=param, expected=expected, got=f"{given!r:.80}") from None


def paired(names: Iterable[Any], values: Any, what: str, names_are: str) -> list[tuple[Any, Any]]:
    """Return each name with its value. what, names_are: what the values are, and what the names are those of, for the
    CountError that is raised where there are more of the ones or the others."""
    names = list(names)
    several = list(values) if isinstance(values, Iterable) else [values]
    if len(several) != len(names):
        raise CountError(f"{len(several)} {what} for {len(names)} {names_are}", expected="one for each")
    return list(zip(names, several, strict=True))
