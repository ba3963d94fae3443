"""Numbers with nilpotent parts: how rules of recurrences run along directions (`symjax_nnvm/ir/rules/derivatives.py`).

A `Dual` is value + ε slope with ε² = 0; its two parts are arrays, or Duals of a further direction. A computation
written with the operations below, run on x + ε v, yields its result and its directional derivative along v; run on
plain arrays it is plain JAX. Nesting n deep gives the mixed n-th derivative along n directions. (Clifford's dual
numbers.)

Numbers that are combined are equally deep, or plain arrays, which are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax


@partial(jax.tree_util.register_dataclass, data_fields=["value", "slope"], meta_fields=[])
@dataclass(frozen=True)
class Dual:
    """value + ε slope."""

    value: Number
    slope: Number

    def __add__(self, other: Number | float) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.value + other.value, self.slope + other.slope)
        value = self.value + other
        return Dual(value, linear(partial(jnp.broadcast_to, shape=plain(value).shape), self.slope))

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.slope)

    def __sub__(self, other: Number | float) -> Dual:
        return self + -other

    def __mul__(self, other: Number | float) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.value * other.value, self.value * other.slope + self.slope * other.value)
        return Dual(self.value * other, self.slope * other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Number | float) -> Dual:
        return -self + other


Number = Array | Dual
"""An array, or one with nilpotent parts."""


def with_directions(point: Sequence[Array], directions: Sequence[Sequence[Array]]) -> list[Number]:
    """point + ε₁ v₁ + … + εₙ vₙ, each array of the point with its part of each direction."""
    numbers: list[Number] = list(point)
    for depth, direction in enumerate(directions):
        numbers = [Dual(x, _nested(v, depth)) for x, v in zip(numbers, direction, strict=True)]
    return numbers


def _nested(array: Array, depth: int) -> Number:
    number: Number = array
    for _ in range(depth):
        number = Dual(number, linear(jnp.zeros_like, number))
    return number


def mixed_slope(x: Number) -> Array:
    """The coefficient of ε₁ … εₙ: the n-th directional derivative (the array itself for n = 0)."""
    while isinstance(x, Dual):
        x = x.slope
    return x


def plain(x: Number) -> Array:
    """The value without any nilpotent part."""
    while isinstance(x, Dual):
        x = x.value
    return x


def lift(x: Number, like: Number) -> Any:
    """A number as deep as another; a constant gets slopes of zero."""
    return _nested(x, _depth(like)) if isinstance(like, Dual) and not isinstance(x, Dual) else x


def _depth(x: Number) -> int:
    return 1 + _depth(x.value) if isinstance(x, Dual) else 0


def linear(f: Callable[..., Any], *xs: Any) -> Any:
    """Apply a linear function, such as a concatenation, to dual numbers: to the values and to the slopes."""
    if any(isinstance(x, Dual) for x in xs):
        deep = next(x for x in xs if isinstance(x, Dual))
        lifted = [lift(x, deep) for x in xs]
        return Dual(linear(f, *(x.value for x in lifted)), linear(f, *(x.slope for x in lifted)))
    return f(*xs)


def bilinear(f: Callable[[Array, Array], Array], a: Number, b: Number) -> Any:
    """A function that is linear in each of two numbers: a product."""
    if isinstance(a, Dual) and isinstance(b, Dual):
        return Dual(bilinear(f, a.value, b.value), bilinear(f, a.value, b.slope) + bilinear(f, a.slope, b.value))
    if isinstance(a, Dual):
        return Dual(bilinear(f, a.value, b), bilinear(f, a.slope, b))
    if isinstance(b, Dual):
        return Dual(bilinear(f, a, b.value), bilinear(f, a, b.slope))
    return f(a, b)


def select(condition: Array, a: Number, b: Number | float) -> Any:
    """a where the condition holds, else b; the condition is a constant."""
    if isinstance(a, Dual) or isinstance(b, Dual):
        return linear(lambda x, y: jnp.where(condition, x, y), a, jnp.asarray(b) if isinstance(b, float) else b)
    return jnp.where(condition, a, b)


# -- functions of one number: their values, and how slopes pass through them -----------------------------------------


def tanh(x: Number) -> Any:
    """The hyperbolic tangent."""
    if isinstance(x, Dual):
        y = tanh(x.value)
        return Dual(y, (1 - y * y) * x.slope)
    return jnp.tanh(x)


def sigmoid(x: Number) -> Any:
    """1 / (1 + exp(-x))."""
    if isinstance(x, Dual):
        y = sigmoid(x.value)
        return Dual(y, y * (1 - y) * x.slope)
    return jax.nn.sigmoid(x)


def relu(x: Number) -> Any:
    """max(x, 0), with slope 0 at 0."""
    return select(plain(x) > 0, x, 0.0) if isinstance(x, Dual) else lax.max(x, jnp.zeros((), x.dtype))


def exp(x: Number) -> Any:
    """The exponential."""
    if isinstance(x, Dual):
        y = exp(x.value)
        return Dual(y, y * x.slope)
    return jnp.exp(x)


def log(x: Number) -> Any:
    """The natural logarithm."""
    if isinstance(x, Dual):
        return Dual(log(x.value), reciprocal(x.value) * x.slope)
    return jnp.log(x)


def reciprocal(x: Number) -> Any:
    """1 / x."""
    if isinstance(x, Dual):
        y = reciprocal(x.value)
        return Dual(y, -(y * y * x.slope))
    return 1 / x


def logsumexp(*xs: Any) -> Any:
    """log Σ exp(x) of equally deep numbers, element by element."""
    if any(isinstance(x, Dual) for x in xs):
        deep = next(x for x in xs if isinstance(x, Dual))
        lifted = [lift(x, deep) for x in xs]
        total = logsumexp(*(x.value for x in lifted))
        weighted = [exp(x.value - total) * x.slope for x in lifted]
        return Dual(total, reduce(add, weighted))
    largest = lax.stop_gradient(reduce(jnp.maximum, xs))
    return largest + jnp.log(reduce(add, (jnp.exp(x - largest) for x in xs)))
