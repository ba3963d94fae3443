"""Gamma and Poisson numbers, by rejection over whole arrays.

`jax.random` gives every element a key and a loop of its own; here every round proposes for all elements at once, which
takes a tenth of the time on a CPU, and every kind of key will do. Logarithms of probabilities that rejection compares
are written so that float32 resolves them for every parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random

Shape = tuple[int, ...]

# Outside of jax.jit a loop is compiled at every call, unless the function around it is a compiled one.
_compiled = partial(jax.jit, static_argnames=("shape", "dtype"))


def _by_rejection(key: Array, value: Array, settled: Array, propose: Callable[[Array], tuple[Array, Array]]) -> Array:
    """Return the first accepted proposal for each element that is not settled from the start.

    propose: key → (proposals, whether each is accepted).
    """

    def unfinished(state: tuple[Array, Array, Array]) -> Array:
        return ~jnp.all(state[2])

    def propose_again(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        number, value, settled = state
        proposal, accepted = propose(random.fold_in(key, number))
        return number + 1, jnp.where(settled, value, proposal), settled | accepted

    return lax.while_loop(unfinished, propose_again, (jnp.uint32(0), value, settled))[1]


def _series(x: Array, coefficients: list[float]) -> Array:
    """Return c0 + c1 x + c2 x² + …"""
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


_SMALL = 0.1  # up to here a Taylor series is used for what would cancel; its seventh power is no longer seen


@_compiled
def gamma(key: Array, alpha: Array | float, shape: Shape, dtype: Any) -> Array:
    """Gamma numbers of scale 1 (Marsaglia and Tsang, 2000). alpha ≥ 0 broadcasts to shape; others give NaN."""
    alpha = jnp.broadcast_to(jnp.asarray(alpha, dtype), shape)
    of_rounds, of_boost = random.split(key)
    # A number of shape α + 1, times the α-th root of a uniform one, is a number of shape α.
    boosted = alpha < 1
    d = jnp.where(boosted, alpha + 1, alpha) - 1 / 3
    c = 1 / (3 * lax.sqrt(d))

    def propose(key: Array) -> tuple[Array, Array]:
        of_normal, of_acceptance = random.split(key)
        y = c * random.normal(of_normal, shape, dtype)
        # With y = c z the logarithm z² / 2 + d (1 - v + log v) is 3 d (log(1 + y) - y + y² / 2 - y³ / 3).
        small = jnp.abs(y) < _SMALL
        near = -(y**4) * _series(y, [1 / 4, -1 / 5, 1 / 6, -1 / 7, 1 / 8, -1 / 9])
        log1p = jnp.log1p(jnp.where(y > -1, y, 0))
        far = log1p - y * (1 - y * (1 / 2 - y / 3))
        bound = 3 * d * jnp.where(small, near, far)
        height = random.exponential(of_acceptance, shape, dtype)
        return (1 + y) ** 3, (y > -1) & (-height < bound)

    one = jnp.ones(shape, dtype)
    value = d * _by_rejection(of_rounds, one, ~((alpha >= 0) & (alpha < jnp.inf)), propose)
    boost = lax.exp(-random.exponential(of_boost, shape, dtype) / jnp.where(boosted, alpha, 1))
    return jnp.where(alpha >= 0, jnp.where(boosted, value * boost, value), jnp.nan)


_LEAST_REJECTION_RATE = 10.0
_MOST_TERMS = 64
"""Terms of the sum of probabilities of a smaller rate: what is left of them is below float64's resolution."""


def poisson(key: Array, rate: Array | float, shape: Shape, dtype: Any) -> Array:
    """Poisson numbers as floating-point numbers. rate ≥ 0 is a number or broadcasts to shape; others give NaN."""
    rates = jnp.asarray(rate, dtype)
    if isinstance(rate, float):
        draw = _poisson_by_inversion if rate < _LEAST_REJECTION_RATE else _poisson_by_rejection
        return draw(key, rates, shape, dtype)
    small = rates < _LEAST_REJECTION_RATE
    of_small, of_large = random.split(key)
    return jnp.where(
        small,
        _poisson_by_inversion(of_small, jnp.where(small, rates, 0), shape, dtype),
        _poisson_by_rejection(of_large, jnp.where(small, jnp.inf, rates), shape, dtype),
    ) + jnp.where(rates >= 0, jnp.zeros((), dtype), jnp.nan)


@_compiled
def _poisson_by_inversion(key: Array, rate: Array, shape: Shape, dtype: Any) -> Array:
    """Return how many partial sums of the probabilities a uniform number reaches."""
    height = random.uniform(key, shape, dtype)

    def unfinished(state: tuple[Array, ...]) -> Array:
        k, _, total, _ = state
        return (k < _MOST_TERMS) & jnp.any(height >= total)

    def add_term(state: tuple[Array, ...]) -> tuple[Array, ...]:
        k, term, total, number = state
        term = term * (rate / k)
        # Rounded, the sum may end below the height: then the last number is where it stopped growing.
        number = number + ((height >= total) & (total + term > total)).astype(dtype)
        return k + 1, term, total + term, number

    first = lax.exp(-rate)
    return lax.while_loop(unfinished, add_term, (jnp.ones((), dtype), first, first, jnp.zeros(shape, dtype)))[3]


@_compiled
def _poisson_by_rejection(key: Array, rate: Array, shape: Shape, dtype: Any) -> Array:
    """Draw by transformed rejection with a squeeze (Hörmann, 1993), for rates ≥ 10; an infinite one stays so."""
    b = 0.931 + 2.53 * lax.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2)

    def propose(key: Array) -> tuple[Array, Array]:
        of_place, of_acceptance = random.split(key)
        u = random.uniform(of_place, shape, dtype) - 0.5
        v = random.uniform(of_acceptance, shape, dtype)
        us = 0.5 - jnp.abs(u)
        k = lax.floor((2 * a / us + b) * u + rate + 0.43)
        height = jnp.log(v * inverse_alpha / (a / (us * us) + b))
        certain = (us >= 0.07) & (v <= squeeze)
        possible = (k >= 0) & ((us >= 0.013) | (v <= us))
        return k, certain | (possible & (height <= _log_probability(k, rate)))

    value = jnp.broadcast_to(rate, shape)
    return _by_rejection(key, value, ~(value < jnp.inf), propose)


def _log_probability(k: Array, rate: Array) -> Array:
    """Return log of the Poisson probability of k, as a deviance and Stirling's series (Loader, 2000); rate ≥ 10."""
    x = (k - rate) / rate
    near = x * x * _series(x, [1 / 2, -1 / 6, 1 / 12, -1 / 20, 1 / 30, -1 / 42])
    far = (1 + x) * jnp.log1p(jnp.maximum(x, -0.999999)) - x
    deviance = rate * jnp.where(jnp.abs(x) < _SMALL, near, far)
    one_over = 1 / jnp.maximum(k, 1)
    error = one_over * (1 / 12 - one_over**2 * (1 / 360 - one_over**2 / 1260))
    return jnp.where(k > 0, -deviance - 0.5 * jnp.log(2 * np.pi * jnp.maximum(k, 1)) - error, -rate)
