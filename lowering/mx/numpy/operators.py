"""How functions of the NumPy dialect call operators: on arrays at once, or on symbols, of which they build a graph.

Each function is written once, with the operators to call as its first parameter, and bound to those of arrays for
`mx.np`, to those of symbols for `mx.sym.np`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from lowering.mx.context import as_context
from lowering.mx.ndarray.array import NUMPY, NDArray, in_dialect, invoke, require_arrays
from lowering.mx.ndarray.creation import stored_array
from symjax_nnvm.errors import NNVMError, SymbolTypeError
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
        """What an operator gives."""
        return self.call(name, *inputs, **parameters)


def _invoked(name: str, *inputs: Any, **parameters: Any) -> Any:
    """Return what an operator makes of arrays."""
    return invoke(function_named(name), *inputs, **parameters)


EAGER = Operators(NDArray, _invoked, False)
"""The operators of arrays."""


def bound(function: Callable[..., Any], operators: Operators, name: str = "") -> Callable[..., Any]:
    """A function of the dialect that calls these operators, with the signature that a caller sees."""
    own = functools.partial(function, operators)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return own(*args, **kwargs)

    signature = inspect.signature(function)
    shown = signature.replace(parameters=[*signature.parameters.values()][1:])
    call.__signature__ = shown  # pyright: ignore[reportAttributeAccessIssue]
    call.__name__ = call.__qualname__ = name or function.__name__.rstrip("_")
    return call


def is_number(value: object) -> TypeGuard[Any]:
    """Whether a value is what MXNet takes for a number: Python's or one of NumPy's."""
    return isinstance(value, int | float | np.generic)


def unsupported(value: object) -> SymbolTypeError:
    """The error for an operand that is neither of the dialect nor a number."""
    fix = "np.array(x) makes an array; x.as_np_ndarray() shows one of mx.nd in the dialect."
    return SymbolTypeError(f"type {type(value)} not supported", fix=fix)


def require_array(value: object) -> None:
    """Raise NotAnArrayError for what is no array: the shape of a result that depends on its values needs them."""
    require_arrays([value], "An argument whose values decide the shape of the result")


def from_host(values: np.ndarray, ctx: Any = None) -> Any:
    """An array of NumPy's in its dtype, where MXNet has that."""
    if values.dtype.kind not in "biufV":
        raise SymbolTypeError(f"Does not support converting an array of {values.dtype} to mx.np.ndarray.")
    return in_dialect(stored_array(values, as_context(ctx)), NUMPY)


def require_order(order: str | None) -> None:
    """Raise UnsupportedError for another order of memory than C's."""
    if order != "C":
        raise UnsupportedError(f"order {order!r} is not supported", expected="'C'")
