"""Arguments that several classes or functions have, written once.

They are explained in one docstring, from which the others take them. Classes that differ in their defaults share an
`__init__`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

T = TypeVar("T")

_ROW = re.compile(r"^ {4}(\w+): .*(?:\n {8}.*)*", re.MULTILINE)
_SECTIONS = "Args:\n", "Returns:\n", "Raises:\n", "Attributes:\n"


def explained_by(*others: Any) -> Callable[[T], T]:
    """Complete the docstring's list of arguments, in the order of the signature; a decorator.

    Args:
        others: classes and functions whose docstrings explain the arguments that the own one does not; the first one
            counts that has an argument.
    """

    def completed(target: T) -> T:
        owner: Any = target
        if owner.__doc__ is None:  # python -OO
            return target
        paragraphs = inspect.cleandoc(owner.__doc__).split("\n\n")
        rows = {name: row for other in (*reversed(others), owner) for name, row in _rows(other.__doc__).items()}
        function = owner.__init__ if isinstance(target, type) else owner
        listed = [rows[name] for name in inspect.signature(function).parameters if name in rows]
        if not listed:
            return target
        start = next((i for i, text in enumerate(paragraphs) if text.startswith(_SECTIONS)), len(paragraphs))
        end = start + (paragraphs[start:] != [] and paragraphs[start].startswith(_SECTIONS[0]))
        paragraphs[start:end] = ["\n".join(["Args:", *listed])]
        owner.__doc__ = "\n\n".join(paragraphs)
        return target

    return completed


def _rows(doc: str | None) -> dict[str, str]:
    """Return the lines of a docstring's list of arguments, by argument."""
    lists = [text for text in inspect.cleandoc(doc or "").split("\n\n") if text.startswith(_SECTIONS[0])]
    return {row[1]: row[0] for text in lists for row in _ROW.finditer(text)}


class Varied:
    """A base of classes that share an `__init__` but for its defaults: `class MAE(_MeanError, name="mae")`.

    The class with the `__init__` explains the arguments.
    """

    def __init_subclass__(cls, **defaults: Any) -> None:
        super().__init_subclass__()
        if defaults:
            type.__setattr__(cls, "__init__", _with_defaults(cls, defaults))
            explained_by(cls.__base__)(cls)


def _with_defaults(cls: type, defaults: dict[str, Any]) -> FunctionType:
    """Return the class's inherited `__init__` with other defaults, as its own."""
    init: Any = cls.__init__
    names = init.__code__.co_varnames[: init.__code__.co_argcount]
    optional = names[len(names) - len(init.__defaults__) :]
    values = dict(zip(optional, init.__defaults__, strict=True)) | defaults
    assert tuple(values) == optional, f"{cls.__name__} has defaults for parameters that it lacks"
    own = FunctionType(init.__code__, init.__globals__, "__init__", tuple(values.values()), init.__closure__)
    own.__qualname__ = f"{cls.__qualname__}.__init__"
    own.__annotations__ = init.__annotations__
    return own
