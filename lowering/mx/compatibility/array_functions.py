"""Functions of symbols as functions of arrays, or of symbols that can be bound: how `mx.nd` and `mx.sym` are made."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from symjax_nnvm.errors import OpNotRegisteredError, UnknownAttributeError, UnknownFunctionError
from symjax_nnvm.ir.op import list_all_names
from symjax_nnvm.symbol import function_named
from symjax_nnvm.symbol.operator_functions import SCALAR_FUNCTIONS

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


OF_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "true_divide": operator.truediv,
    "modulo": operator.mod,
    "power": pow,
    "pow": pow,
    "maximum": lambda x, y: x if x > y else y,
    "minimum": lambda x, y: x if x < y else y,
    "hypot": math.hypot,
    "equal": lambda x, y: int(x == y),
    "not_equal": lambda x, y: int(x != y),
    "greater": lambda x, y: int(x > y),
    "greater_equal": lambda x, y: int(x >= y),
    "lesser": lambda x, y: int(x < y),
    "lesser_equal": lambda x, y: int(x <= y),
    "logical_and": lambda x, y: int(bool(x and y)),
    "logical_or": lambda x, y: int(bool(x or y)),
    "logical_xor": lambda x, y: int(bool(x) ^ bool(y)),
}
"""What functions of arrays and numbers, or of symbols and numbers, give for two numbers."""


class Wrapped:
    """A group of operator functions, such as `contrib`, each of them wrapped.

    owner: the module that has the group, `mx.nd`. home: that module's own name. functions: replacements of some of
    them. A function that is registered later is wrapped when it is first used.
    """

    def __init__(self, owner: str, home: str, group: Any, wrap: Wrap, **functions: Callable[..., Any]):
        self.__name__, self._owner = f"{home}.{group.__name__}", owner
        self._group, self._wrap = group, wrap
        self.__dict__.update(functions)
        for name in {*dir(group)} - functions.keys():
            getattr(self, name)  # libraries look functions up in `__dict__`

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            function = self._wrap(getattr(self._group, name))
        except AttributeError as error:
            lacks = error  # `error` ends with this block
            raise UnknownFunctionError(lambda: str(lacks).replace("symbol.", f"{self._owner}.")) from None
        function.__module__ = self.__name__
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._group), *(name for name in self.__dict__ if name[:1] != "_")})

    def __repr__(self) -> str:
        return f"<operator functions {self._group.__name__}>"


class Internal:
    """MXNet's `_internal`: operator functions by the operators' own names, wrapped likewise. home: as of Wrapped."""

    def __init__(self, home: str, wrap: Wrap):
        self.__name__, self._wrap = f"{home}._internal", wrap

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            function = self._wrap(function_named(name))
        except OpNotRegisteredError as error:
            raise UnknownAttributeError(f"_internal has no function {name!r}. {error}", name=name) from None
        setattr(self, name, function)
        return function

    def __repr__(self) -> str:
        return "<operator functions _internal>"


def function_names() -> set[str]:
    """Return the names of the functions that `mx.nd` and `mx.sym` make when they are first used."""
    return {*list_all_names(), *SCALAR_FUNCTIONS, "histogram", "split_v2"}


def rename_group(group: Wrapped | Internal, name: str) -> None:
    """Give another name to a group, and to its operators' functions as their module."""
    for function in vars(group).values():
        if getattr(function, "__module__", None) == group.__name__:
            function.__module__ = name
    group.__name__ = name


def like(function: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """The wrapper, under the name and with the documentation of a function; it belongs to the module that made it."""
    assigned = [attribute for attribute in functools.WRAPPER_ASSIGNMENTS if attribute != "__module__"]
    return functools.update_wrapper(wrapper, function, assigned)


def after_own(function: Callable[..., Any], **kinds: type | tuple[type, ...]) -> Wrap:
    """What lets a wrapper of an operator's function take more arguments by position, after the operator's own, as
    MXNet's functions do. kinds: their names, in order, and what each may be besides None."""
    own: int | None = getattr(function, "own_arguments", None)
    if own is None:
        return lambda wrapper: wrapper

    def wrap(wrapper: Callable[..., Any]) -> Callable[..., Any]:

        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > own:
                further = dict(zip(kinds, args[own:], strict=False))
                fits = all(value is None or isinstance(value, kinds[name]) for name, value in further.items())
                if fits and len(args) <= own + len(kinds) and not further.keys() & kwargs.keys():
                    args, kwargs = args[:own], {**kwargs, **further}
            return wrapper(*args, **kwargs)  # which words the error of too many

        call.__module__ = wrapper.__module__
        return call

    return wrap


def overridden(instance: object, cls: type, *methods: str) -> bool:
    """Whether an object has another method than a class in place of one of these: its own, or its class's. What
    does the work of several methods at once gives way to them."""
    return any(getattr(getattr(instance, name), "__func__", None) is not vars(cls)[name] for name in methods)
