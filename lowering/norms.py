"""Norms that are right wherever they are in their dtype's range, though the squares of what they are of may not be."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax


def norm(*arrays: Array, axes: Sequence[int] | None = None, keepdims: bool = False, plus: float = 0.0) -> Array:
    """Compute √(Σ x² + plus) over axes, of all arrays together, in float32 at least.

    The squares of float16 are in the range of float32. Where a sum of others is not, or is so small that squares were
    lost, they are added up again, scaled by a power of two: a branch that ordinary numbers do not enter.
    """
    wide = [array.astype(jnp.promote_types(array.dtype, jnp.float32)) for array in arrays]
    total = _sum_of_squares(wide, axes) + plus
    info = jnp.finfo(total.dtype)
    if all(_squares_fit(array) for array in arrays):
        root = lax.sqrt(total)
    else:
        lost = float(info.tiny / info.eps) * 2.0**31  # what squares of 2³¹ elements that vanish are not a digit of
        usual = jnp.all((total >= lost) & (total < math.inf))
        root = lax.cond(usual, lambda: lax.sqrt(total), lambda: _scaled(wide, axes, plus, total, lost))
    return root if keepdims else lax.squeeze(root, range(root.ndim) if axes is None else axes)


def _squares_fit(array: Array) -> bool:
    """Return whether the squares of a dtype's numbers are ordinary numbers of float32."""
    return array.dtype == jnp.float16 or not jnp.issubdtype(array.dtype, jnp.floating)


def _sum_of_squares(arrays: list[Array], axes: Sequence[int] | None) -> Array:
    sums = [jnp.sum(lax.square(array), axes, keepdims=True) for array in arrays]
    return sums[0] if len(sums) == 1 else jnp.sum(jnp.stack([total.reshape(()) for total in sums]))


def _scaled(arrays: list[Array], axes: Sequence[int] | None, plus: float, total: Array, lost: float) -> Array:
    """Compute the root from scaled numbers where the total is infinite, or too small."""
    info = jnp.finfo(total.dtype)
    down, up = 2.0 ** -(info.maxexp // 2 + 16), 2.0 ** (24 - info.minexp // 2)
    factor = jnp.where(total == math.inf, down, jnp.where(total < lost, up, 1.0)).astype(total.dtype)
    scaled = _sum_of_squares([array * factor for array in arrays], axes) + plus * factor * factor
    return lax.sqrt(scaled) / factor
