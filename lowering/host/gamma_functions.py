"""Derivatives of log Γ, which NumPy has not, computed in float64: digamma, and polygamma of any order."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np

from lowering.host.primitives import Arrays, JaxEquation, dtype_of, evaluates

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""Bernoulli's numbers B₂, B₄, …"""

_FAR = 10
"""Where asymptotic series of so many numbers have the digits of float64."""

_AT_ZERO = -np.inf if jax.__version_info__ >= (0, 12) else np.nan
"""ψ(0) as XLA has it: with JAX 0.12 the limit from above."""


def _digamma(x: Any) -> Any:
    """ψ(x) = ψ(1 - x) - π cot(πx) = ψ(x + 1) - 1 / x; far from 0 log x - 1 / 2x - Σ Bₙ / n xⁿ. At other poles NaN."""
    turned = x < 0.5
    z = np.where(turned, 1 - x, x)
    total = np.where(turned, -np.pi / np.tan(np.pi * (x - np.rint(x))), 0.0)
    for _ in range(_FAR):
        near = z < _FAR
        total -= near / z
        z = z + near
    inverse = 1 / (z * z)
    series = np.zeros_like(z)
    for n, number in reversed([*enumerate(_BERNOULLI, 1)]):
        series = inverse * (number / (2 * n) + series)
    at_poles = np.where(x == 0, _AT_ZERO, np.nan)
    return np.where((x <= 0) & (np.floor(x) == x), at_poles, total + (np.log(z) - 0.5 / z - series))


def _zeta(s: Any, q: Any) -> Any:
    """Hurwitz' ζ(s, q) = Σ (q + k)⁻ˢ for s > 1, by Euler and Maclaurin from the tenth term on, as XLA computes it."""
    total = q**-s
    for k in range(1, _FAR):
        term = (q + k) ** -s
        total += term
    a = q + (_FAR - 1)
    total += term * a / (s - 1) - 0.5 * term  # pyright: ignore[reportPossiblyUnboundVariable]
    factor = term * s / a  # pyright: ignore[reportPossiblyUnboundVariable]
    for n, number in enumerate(_BERNOULLI, 1):
        total += number / math.factorial(2 * n) * factor
        factor *= (s + (2 * n - 1)) * (s + 2 * n) / (a * a)
    return np.where((q <= 0) & (np.floor(q) == q), np.where(s % 2 == 0, np.inf, np.nan), total)


def _polygamma(order: Any, x: Any) -> Any:
    """ψₙ(x) = (-1)ⁿ⁺¹ n! ζ(n + 1, x); NaN of an order that is not a whole number from 0 on."""
    is_order = (order >= 0) & (np.floor(order) == order)
    s = np.where(is_order & (order > 0), order, 1) + 1
    factorials = np.vectorize(math.gamma, otypes=[np.float64])(np.minimum(s, 171))
    higher = np.where(s % 2 == 0, factorials, -factorials) * _zeta(s, x)
    return np.where(is_order, np.where(order == 0, _digamma(x), higher), np.nan)


_FUNCTIONS = {"digamma": _digamma, "polygamma": _polygamma}


@evaluates(*_FUNCTIONS)
def _function(equation: JaxEquation) -> Arrays:
    function, dtype = _FUNCTIONS[equation.primitive.name], dtype_of(equation.outvars[0])  # pyright: ignore
    return lambda *arrays: function(*(np.asarray(array, np.float64) for array in arrays)).astype(dtype)
