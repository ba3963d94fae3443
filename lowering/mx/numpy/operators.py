"""How functions of the NumPy dialect call operators: on arrays at once, or on symbols, which makes a graph.

Each function is written once, with the operators to call as its first parameter, and bound to those of arrays for
`mx.np`, to those of symbols for `mx.sym.np`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from lowering.mx.accepted_types import ContextLike
from lowering.mx.compatibility.array_functions import after_own, like
from lowering.mx.context import as_context
from lowering.mx.ndarray.array import NUMPY, NDArray, in_dialect, invoke
from lowering.mx.ndarray.creation import stored_array
from symjax_nnvm.errors import NNVMError, SymbolTypeError, UnknownFunctionError, did_you_mean
from symjax_nnvm.ir.op import list_all_names
from symjax_nnvm.symbol import function_named


class UnsupportedError(NNVMError, NotImplementedError):
    """An argument of NumPy's that MXNet's function does not take. MXNet raises a NotImplementedError."""


class DialectValueError(NNVMError, ValueError):
    """An argument that no array can be made with. MXNet raises a ValueError."""


class Operators(NamedTuple):
    """The operators of arrays, or of symbols.

    kind: the class of their inputs. call: (name, *inputs, **parameters) → outputs. symbolic: whether a graph is built.
    """

    kind: type
    call: Callable[..., Any]
    symbolic: bool

    def __call__(self, name: str, *inputs: Any, **parameters: Any) -> Any:
        """Return the operator's output, or outputs."""
        return self.call(name, *inputs, **parameters)


def _invoked(name: str, *inputs: Any, **parameters: Any) -> Any:
    """Return what an operator makes of arrays. As in MXNet a parameter may be the number of an array without axes."""
    for key, value in parameters.items():
        if isinstance(value, NDArray) and key != "out" and not value.shape:
            parameters[key] = value.item()  # pyright: ignore[reportAttributeAccessIssue]
    return invoke(function_named(name), *inputs, **parameters)


EAGER = Operators(NDArray, _invoked, False)
"""The operators of arrays."""


def bound(function: Callable[..., Any], operators: Operators, name: str = "") -> Callable[..., Any]:
    """A function of the dialect that calls these operators, with the signature that MXNet's has."""
    own = functools.partial(function, operators)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return own(*args, **kwargs)
        except TypeError as error:
            names = inspect.signature(call).parameters
            if isinstance(error, NNVMError) or not (unknown := kwargs.keys() - names.keys()) or "kwargs" in names:
                raise
            problem = f"np.{call.__name__} has no parameter {', '.join(map(repr, sorted(unknown)))}"
            raise SymbolTypeError(problem, expected=", ".join(names)) from None

    shown = [
        param.replace(annotation=inspect.Parameter.empty) for param in inspect.signature(function).parameters.values()
    ]
    call.__signature__ = inspect.Signature(shown[1:])  # pyright: ignore[reportAttributeAccessIssue]
    call.__name__ = call.__qualname__ = name or function.__name__.rstrip("_")
    return call


def is_number(value: object) -> TypeGuard[Any]:
    """Whether a value is what MXNet takes for a number: Python's or one of NumPy's."""
    return isinstance(value, int | float | np.generic)


def unsupported(value: object) -> SymbolTypeError:
    """The error for an operand that is neither of the dialect nor a number."""
    fix = "np.array(x) makes an array; x.as_np_ndarray() shows one of mx.nd in the dialect."
    return SymbolTypeError(f"type {type(value)} not supported", fix=fix)


def from_host(values: np.ndarray, ctx: ContextLike = None) -> Any:
    """An array of NumPy's in its dtype, where MXNet has that."""
    if values.dtype.kind not in "biufV":
        raise SymbolTypeError(f"Does not support converting an array of {values.dtype} to mx.np.ndarray.")
    return in_dialect(stored_array(values, as_context(ctx)), NUMPY)


def require_order(order: str | None) -> None:
    """Raise UnsupportedError for another order of memory than C's."""
    if order != "C":
        raise UnsupportedError(f"order {order!r} is not supported", expected="'C'")


def _of_operator(op: Operators, operator: str, name: str) -> Callable[..., Any]:
    function = function_named(operator)

    @after_own(function, out=(NDArray, list, tuple), name=str)
    def call(*args: Any, **kwargs: Any) -> Any:
        return op(operator, *args, **kwargs)

    named = like(function, call)
    named.__name__ = named.__qualname__ = name
    return named


def missing(owner: str, name: str, own: Iterable[str], numpys: Any = None, fix: str = "") -> UnknownFunctionError:
    """The error for a name that a module of the dialect lacks, with the way out.

    Args:
        owner: the module.
        name: the name.
        own: the names that it has.
        numpys: the module of NumPy's with functions of these names.
        fix: the way out, where it is none of theirs.
    """

    def message() -> str:
        ways = [fix or did_you_mean(name, own)]
        if not fix and numpys is not None and name in dir(numpys):
            ways.append(f"{numpys.__name__}.{name} is NumPy's: give it x.asnumpy(), and its result to np.array.")
        return " ".join([f"module {owner!r} has no attribute {name!r}.", *filter(None, ways)])

    return UnknownFunctionError(message)


class Group:
    """Functions of operators as attributes, made when they are first used, and others.

    name: the name of the group, for errors. prefix: the prefix of the operators' names. further: other attributes.
    """

    def __init__(self, name: str, op: Operators, names: tuple[str, ...], prefix: str, **further: Any):
        self.__name__, self._op, self._names, self._prefix = name, op, names, prefix
        self.__dict__.update(further)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._names:
            lacks = f"{self.__name__} has no function {name!r}."
            raise UnknownFunctionError(lambda: f"{lacks} {did_you_mean(name, dir(self))}".rstrip())
        function = _of_operator(self._op, f"{self._prefix}{name}", name)
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        return sorted({*self._names, *(name for name in self.__dict__ if name[:1] != "_")})


def internal(owner: str, op: Operators) -> Group:
    """The operators `_npi_…` of arrays, or of symbols, by the rest of their names. owner: what has the group."""
    names = tuple(name.removeprefix("_npi_") for name in list_all_names() if name.startswith("_npi_"))
    return Group(f"{owner}._internal", op, names, "_npi_")
