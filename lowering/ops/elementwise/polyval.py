"""JAX rules of polyval."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers_table


def _polyval(p: Array, x: Array) -> Array:
    """Horner's scheme."""
    total = jnp.zeros_like(x)
    for i in range(p.shape[0]):
        total = total * x + p[i]
    return total


def _backward_polyval(ograd: Array, p: Array, x: Array) -> Array:
    sums, power = [], ograd
    for _ in range(p.shape[0]):
        sums.append(jnp.sum(power, dtype=p.dtype))
        power = power * x
    return jnp.stack(sums[::-1]) if sums else jnp.zeros_like(p)


def _powers(count: int, dtype: np.dtype) -> np.ndarray:
    return np.arange(count - 1, 0, -1).astype(dtype)


def _backward_derivative(ograd: Array, p: Array) -> Array:
    return jnp.pad(ograd * _powers(p.shape[0], p.dtype), (0, 1)) if p.shape[0] else ograd


lowers_table(
    {
        "_npi_polyval": _polyval,
        "_backward_npi_polyval": _backward_polyval,
        "_polynomial_derivative": lambda p: p[:-1] * _powers(p.shape[0], p.dtype),
        "_backward_polynomial_derivative": _backward_derivative,
    }
)
