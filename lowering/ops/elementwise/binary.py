"""JAX rules of the functions of two arrays of one shape."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers, lowers_table
from lowering.jax_casts import cast
from lowering.ops.elementwise.unary import is_integer
from symjax_nnvm.ops.elementwise import binary as ops

Function = Callable[[Array, Array], Array]


def _mod(x: Array, y: Array) -> Array:
    """Return the remainder with the sign of the divisor; x mod 0 = 0."""
    zero = lax.full_like(y, 0)
    remainder = lax.rem(x, y)
    if not jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        other_sign = (remainder != zero) & ((remainder < zero) != (y < zero))
        remainder = lax.select(other_sign, remainder + y, remainder)
    return lax.select(y == zero, zero, remainder)


def _power(x: Array, y: Array) -> Array:
    if not is_integer(x):
        return lax.pow(x, y)
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return jnp.power(x, y)
    zero, one = lax.full_like(x, 0), lax.full_like(x, 1)
    # A negative power is 1/n truncated: 0, unless the base is 1 or -1.
    inverse = lax.select(lax.abs(x) == one, lax.select((y & one) == one, x, one), zero)
    return lax.select(y < zero, inverse, jnp.power(x, lax.max(y, zero)))


def _truth(function: Function) -> Function:
    """Return a function with a truth value, as 1 and 0 of the dtype of the data."""
    return lambda x, y: function(x, y).astype(x.dtype)


def _logical(function: Function) -> Function:
    """Return a logical function, for which every number but 0 is true."""
    return _truth(lambda x, y: function(x != lax.full_like(x, 0), y != lax.full_like(y, 0)))


def _in_float(function: Function) -> Function:
    """A function of real numbers, in float32 where those are narrower; of integers it is truncated, too."""

    def rule(x: Array, y: Array) -> Array:
        if not is_integer(x) and x.dtype.itemsize >= 4:
            return function(x, y)
        return cast(function(x.astype(np.float32), y.astype(np.float32)), x.dtype)

    return rule


def _copysign(x: Array, y: Array) -> Array:
    if not is_integer(x):
        return jnp.copysign(x, y)
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return x
    size = lax.abs(x)
    return lax.select(y < lax.full_like(y, 0), -size, size)


def _lcm(x: Array, y: Array) -> Array:
    return lax.bitwise_and(x, y) if x.dtype == np.bool_ else jnp.lcm(x, y)


COMPARISONS: dict[str, Function] = {
    "equal": lax.eq,
    "not_equal": lax.ne,
    "greater": lax.gt,
    "greater_equal": lax.ge,
    "lesser": lax.lt,
    "lesser_equal": lax.le,
}
"""Function's name → the function, whose result is boolean."""

FUNCTIONS: dict[str, Function] = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "mod": _mod,
    "power": _power,
    "maximum": lax.max,
    "minimum": lax.min,
    "hypot": _in_float(jnp.hypot),
    **{name: _truth(function) for name, function in COMPARISONS.items()},
    "logical_and": _logical(lax.bitwise_and),
    "logical_or": _logical(lax.bitwise_or),
    "logical_xor": _logical(lax.bitwise_xor),
}
"""Function's name → the function of two arrays of one shape and dtype."""

ALL_FUNCTIONS: dict[str, Function] = FUNCTIONS | {
    "arctan2": _in_float(lax.atan2),
    "copysign": _copysign,
    "ldexp": _in_float(lambda x, y: x * lax.exp2(y)),
    "lcm": _lcm,
    "bitwise_and": lax.bitwise_and,
    "bitwise_or": lax.bitwise_or,
    "bitwise_xor": lax.bitwise_xor,
}
"""The same, with those that exist only in the NumPy dialect."""

lowers_table({row.op: FUNCTIONS[row.name] for row in ops.FUNCTIONS})
lowers_table({"_grad_add": lax.add, "_backward_mul": lambda ograd, lhs, rhs: (ograd * rhs, ograd * lhs)})


@lowers("add_n")
def _add_n(p: ops.AddNParams, *args: Array) -> Array:
    return reduce(lax.add, args)
