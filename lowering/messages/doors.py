"""Doors: the functions that users pass arrays to. Each door words its own errors: what the caller typed, and what to
type instead."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, ParamSpec, TypeVar

from symjax_nnvm.errors import CallError, LoweringError, close_names, listed

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Door:
    """A function as messages have it. called: its name in them. takes: what it takes, in words. call: a call
    that works. unpacks: one that works for a dict of arrays, where the function takes them by keyword. most: how many
    arguments it takes by position; None: any number."""

    called: str
    takes: str
    call: str
    unpacks: str = ""
    most: int | None = None

    def refusal(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallError:
        """Return the error for a call that Python does not bind to the function's parameters."""
        kinds = Counter(type(arg).__name__ for arg in args)
        typed = [f"{count} {kind} by position" for kind, count in kinds.items()]
        typed += [f"{listed(kwargs)} by name"] if kwargs else []
        got = " and ".join(typed) or "nothing"
        unpacks = self.unpacks if any(isinstance(arg, Mapping) for arg in args) else ""
        return CallError(f"{self.called} takes {self.takes}, got {got}. For example: {unpacks or self.call}.")

    def misnamed(self, inputs: Sequence[str], keywords: Collection[str]) -> LoweringError:
        """Return the error for arrays by keyword whose names are not exactly those of the inputs."""
        missing = [name for name in inputs if name not in keywords]
        unknown = [name for name in keywords if name not in inputs]
        wrong = [f"{how} {listed(names)}" for how, names in (("missing", missing), ("unknown", unknown)) if names]
        meant = close_names(unknown, missing) if missing else ""
        problem = f"{self.called} takes {listed(inputs)} by name: {' and '.join(wrong)}."
        fitting = f"{self.called}({', '.join(f'{name}=x' for name in inputs)})"
        return LoweringError(" ".join(filter(None, (problem, meant, f"For example: {fitting}."))))


def door_of(called: str, function: Callable[..., Any], without: Collection[str] = ()) -> Door:
    """Return the door of a function of arrays by position, a block's. without: parameters that the block gives."""
    kinds = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.POSITIONAL_OR_KEYWORD: ""}
    parameters = inspect.signature(function).parameters.values()
    names = [kinds[p.kind] + p.name for p in parameters if p.kind in kinds and p.name not in without]
    most = None if any(name.startswith("*") for name in names) else len(names)
    return Door(called, f"{listed(names)} by position", f"block({', '.join(names)})", most=most)


def refuse_unbound(error: TypeError, door: Door, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NoReturn:
    """Raise the door's refusal for an error that Python raised where the function that was called is; else the error.
    To be called in an `except` clause beside the call."""
    if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # raised inside of the function
        raise error
    raise door.refusal(args, kwargs) from None


def says_how_to_call(door: Door) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator: a call that Python does not bind to the parameters is refused in the door's words.

    Raises CallError, a TypeError.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                typed = args[1:] if "." in function.__qualname__.rpartition("<locals>.")[2] else args  # without self
                refuse_unbound(error, door, typed, kwargs)

        return called

    return decorate


_BOTH = "two dicts of arrays by name, arguments and auxiliary states"

FUNCTION = Door("The function of a symbol", _BOTH, "outputs, new_aux = f(args | {'data': x}, aux)")
"""What `to_jax` and `compile` return."""

GRADIENT = Door(
    "The gradient of a symbol", _BOTH, "outputs, grads, new_aux = lowering.grad_fn(symbol)(args | {'data': x}, aux)"
)
"""What `grad_fn` returns."""

PREDICT = Door(
    "predict",
    "inputs by name, after a PRNG key where the network draws numbers",
    "predict(data=x)",
    unpacks="predict(**arrays)",
)
FORWARD = Door(
    "executor.forward",
    "is_train, and arrays by name",
    "executor.forward(is_train=False, data=x)",
    unpacks="executor.forward(is_train=False, **arrays)",
)
MODULE = Door("module.forward", "a DataBatch", "module.forward(mx.io.DataBatch([x], [label]))")
STEP = Door("trainer.step", "a dict of arrays by name", "trainer.step({'data': x, 'softmax_label': y})")
