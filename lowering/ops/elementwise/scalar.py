"""JAX rules of the functions of an array and a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import number_as
from lowering.ops.elementwise.binary import ALL_FUNCTIONS, COMPARISONS, Function
from lowering.ops.elementwise.unary import is_integer
from symjax_nnvm.ops.elementwise.scalar import ScalarParams

_MAX_CHAIN = 16
"""Largest whole power that is a chain of multiplications: beyond it `pow` is as precise and as fast."""


def _operands(p: ScalarParams, data: Array) -> tuple[Array, Any]:
    """Return the data in the dtype to calculate in, and the number in that dtype."""
    if isinstance(p.scalar, jax.Array):
        return data, p.scalar.astype(data.dtype)
    if is_integer(data) and not p.is_int:
        data = data.astype(jax.dtypes.canonicalize_dtype(np.float64))
    elif data.dtype == np.bool_:
        data = data.astype(jax.dtypes.canonicalize_dtype(np.int64))
    if not is_integer(data):
        return data, np.asarray(p.scalar, data.dtype)
    return data, number_as(p.scalar, data.dtype)


def _function(name: str, *, reflected: bool = False) -> Callable[[Array, Any], Array]:
    """Return a function of two arrays, one of them the number everywhere."""
    function = ALL_FUNCTIONS[name]
    if reflected:
        return lambda data, number: function(lax.full_like(data, number), data)
    return lambda data, number: function(data, lax.full_like(data, number))


def _mod(data: Array, number: np.ndarray) -> Array:
    """Return the remainder with the sign of the number, which is known."""
    if number == 0:
        return lax.full_like(data, 0)
    divisor = lax.full_like(data, number)
    remainder = lax.rem(data, divisor)
    if jnp.issubdtype(data.dtype, jnp.unsignedinteger):
        return remainder
    other_sign = remainder < 0 if number > 0 else remainder > 0
    return lax.select(other_sign, remainder + divisor, remainder)


def _power(data: Array, number: np.ndarray) -> Array:
    value = float(number)
    if is_integer(data):
        if value >= 0:
            return lax.integer_pow(data, int(value))
    elif value.is_integer() and abs(value) <= _MAX_CHAIN:
        return lax.integer_pow(data, int(value))
    elif abs(value) == 0.5:
        return lax.sqrt(data) if value > 0 else lax.rsqrt(data)
    return ALL_FUNCTIONS["power"](data, lax.full_like(data, number))


_OF_ANY_NUMBER: dict[str, Callable[[Array, Any], Array]] = {
    "_plus_scalar": _function("add"),
    "_minus_scalar": _function("sub"),
    "_rminus_scalar": _function("sub", reflected=True),
    "_mul_scalar": _function("mul"),
    "_div_scalar": _function("div"),
    "_rdiv_scalar": _function("div", reflected=True),
    "_rmod_scalar": _function("mod", reflected=True),
    "_rpower_scalar": _function("power", reflected=True),
    "_maximum_scalar": _function("maximum"),
    "_minimum_scalar": _function("minimum"),
    "_hypot_scalar": _function("hypot"),
    **{
        f"_{name}_scalar": _function(name)
        for name in (
            *("equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal"),
            *("logical_and", "logical_or", "logical_xor"),
        )
    },
}
"""Rules that take the number as an array, too, which is of the data's kind: both are floating."""

_OF_KNOWN_NUMBERS: dict[str, Callable[[Array, np.ndarray], Array]] = {"_mod_scalar": _mod, "_power_scalar": _power}
"""Rules that are made for each number."""


def _lower(name: str, rule: Callable[[Array, Any], Array], *, changing: Sequence[str] = ()) -> None:
    lowers(name, changing=changing)(lambda p, data: rule(*_operands(p, data)))


def _divided(*, reflected: bool) -> Callable[[ScalarParams, Array], Array]:
    """A division whose result is floating, of whole numbers in float32."""
    function = _function("div", reflected=reflected)
    return lambda p, data: function(*_operands(p, data.astype(np.float32) if is_integer(data) else data))


def _of_whole(name: str) -> Callable[[ScalarParams, Array], Array]:
    """A function of whole numbers or booleans, of whose dtype the number becomes."""
    return lambda p, data: ALL_FUNCTIONS[name](data, lax.full_like(data, number_as(p.scalar, data.dtype)))


def _compared(function: Function) -> Callable[[ScalarParams, Array], Array]:
    def rule(p: ScalarParams, data: Array) -> Array:
        data, number = _operands(p, data)
        return function(data, lax.full_like(data, number))

    return rule


_WHOLE = ("lcm", "bitwise_and", "bitwise_or", "bitwise_xor")
_OF_NUMPY: dict[str, Callable[[ScalarParams, Array], Array]] = {
    "true_divide": _divided(reflected=False),
    "rtrue_divide": _divided(reflected=True),
    **{name: _of_whole(name) for name in _WHOLE},
    **{name.replace("lesser", "less"): _compared(function) for name, function in COMPARISONS.items()},
}
for _name in ("arctan2", "copysign", "ldexp"):
    for _prefix in ("", "r"):
        _OF_ANY_NUMBER[f"_npi_{_prefix}{_name}_scalar"] = _function(_name, reflected=bool(_prefix))
for _name, _of_number in _OF_NUMPY.items():
    lowers(f"_npi_{_name}_scalar", changing=() if _name in _WHOLE else ("scalar",))(_of_number)
for _name, _rule in _OF_ANY_NUMBER.items():
    _lower(_name, _rule, changing=("scalar",))
for _name, _rule in _OF_KNOWN_NUMBERS.items():
    _lower(_name, _rule)
