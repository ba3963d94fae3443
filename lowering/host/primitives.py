"""The table of JAX's primitives that NumPy evaluates. A row takes an equation and returns a function of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

Arrays = Callable[..., Any]
"""A function of NumPy's arrays: an array for an equation of one result, else a sequence."""


class NotEvaluated(Exception):
    """An equation that the table does not evaluate: the program is compiled."""


class JaxEquation(Protocol):
    """What a row reads of `jax.extend.core.JaxprEqn`: parameters by name, and variables that have an `aval`."""

    params: dict[str, Any]
    invars: list[Any]
    outvars: list[Any]


Row = Callable[[JaxEquation], Arrays]

ROWS: dict[str, Row] = {}
"""The name of a primitive → its row."""


def evaluates(*names: str) -> Callable[[Row], Row]:
    """A decorator that adds a row for primitives."""

    def add(row: Row) -> Row:
        for name in names:
            ROWS[name] = row
        return row

    return add


def evaluated_by(**functions: Arrays) -> None:
    """Add rows for primitives that one function computes, whatever their parameters are. functions: by primitive."""
    for name, function in functions.items():
        ROWS[name] = lambda equation, function=function: function


def require(condition: bool) -> None:
    """Raise NotEvaluated unless a condition holds."""
    if not condition:
        raise NotEvaluated


WITH_KEYS = {
    *("random_bits", "random_fold_in", "random_split", "random_unwrap", "random_wrap"),
    *("jit", "pjit", "closed_call", "cond", "while", "scan"),
    *("reshape", "squeeze", "slice", "unstack"),
}
"""Primitives that are evaluated of keys, too. A key is an array of words along an axis of its own, the last."""


COMPILED = {
    "call_hi_primitive": "JAX 0.12 has primitives of another kind for nonzero",
    "cholesky": "LAPACK computes it, with NaN where NumPy raises an error",
    "complex": "complex numbers occur only inside Fourier transforms",
    "eig": "LAPACK computes it; NumPy's vectors may have another scale",
    "eigh": "LAPACK computes it; NumPy's vectors may have another sign",
    "erf_inv": "of 64 bits, for which XLA has a polynomial of its own",
    "ffi_call": "a library's function",
    "fft": "NumPy's is of 64 bits",
    "lu": "NumPy has no such function",
    "pure_callback": "Python is called once, and by XLA",
    "qr": "LAPACK computes it; NumPy's factors may have another sign",
    "random_bits": "of several keys at once",
    "random_fold_in": "of several keys at once",
    "random_split": "of several keys at once",
    "reduce_precision": "to a precision that no dtype has",
    "svd": "LAPACK computes it; NumPy's vectors may have another sign",
    "triangular_solve": "NumPy has no such function",
}
"""Primitives that operators use and that are left to the compiler, all or in one form → why."""


def is_key(dtype: Any) -> bool:
    """Whether a dtype is that of JAX's keys."""
    return not isinstance(dtype, np.dtype) and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def is_threefry(dtype: Any) -> bool:
    """Whether a dtype is that of the keys whose random bits NumPy computes."""
    return str(getattr(dtype, "name", "")) == "key<fry>"


def is_of_keys(variable: Any) -> bool:
    """Whether an equation's variable is an array of keys."""
    return is_key(getattr(variable.aval, "dtype", None))


def shape_of(variable: Any) -> tuple[int, ...]:
    """The shape of an equation's variable as an array of NumPy's: keys have two words each."""
    return (*variable.aval.shape, *(2,) * is_of_keys(variable))


def dtype_of(variable: Any) -> np.dtype[Any]:
    """The dtype of an equation's variable; a key's is that of its words."""
    return np.dtype(np.uint32) if is_of_keys(variable) else np.dtype(variable.aval.dtype)


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether numbers are real floating-point numbers, of half precision of any kind too."""
    return jnp.issubdtype(dtype, np.floating)


def in_single(function: Arrays, dtype: np.dtype[Any]) -> Arrays:
    """A function of NumPy's computed in float32 where numbers have half the precision, as XLA computes it."""
    if not is_floating(dtype) or dtype.itemsize >= 4:
        return function
    return lambda *arrays: function(*[array.astype(np.float32) for array in arrays]).astype(dtype)
