"""Norms that are right wherever they are in their dtype's range, though the squares of what they are of may not be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import jax.numpy as jnp
from jax import Array, lax

_COUNT = 2.0**31
"""The largest number of squares that are added."""


def norm(*arrays: Array, axes: Sequence[int] | None = None, keepdims: bool = False, plus: float = 0.0) -> Array:
    """Compute √(Σ x² + plus) over axes, of all arrays together, in float32 at least.

    The squares of float16 are in the range of float32. Where a sum of others is not, or is so small that squares were
    lost, the sum of numbers scaled by a power of two is taken.
    """
    wide = [array.astype(jnp.promote_types(array.dtype, jnp.float32)) for array in arrays]
    if all(_squares_fit(array) for array in arrays):
        root = lax.sqrt(_total(wide, axes, plus))
    else:
        root = lax.platform_dependent(
            *wide, cpu=partial(_branching, axes=axes, plus=plus), default=partial(_selecting, axes=axes, plus=plus)
        )
    return root if keepdims else lax.squeeze(root, range(root.ndim) if axes is None else axes)


def _squares_fit(array: Array) -> bool:
    """Return whether the squares of a dtype's numbers are ordinary numbers of float32."""
    return array.dtype == jnp.float16 or not jnp.issubdtype(array.dtype, jnp.floating)


def _branching(*arrays: Array, axes: Sequence[int] | None, plus: float) -> Array:
    """Return norms; sums that overflow or underflow are computed again, scaled, in a branch taken only then (CPU)."""
    total = _total(arrays, axes, plus)
    usual = jnp.all((total >= _lost(total)) & (total < math.inf))

    def scaled() -> Array:
        down, up = _factors(total)
        factor = jnp.where(total == math.inf, down, jnp.where(total < _lost(total), up, 1.0)).astype(total.dtype)
        return lax.sqrt(_total([array * factor for array in arrays], axes, plus, factor)) / factor

    return lax.cond(usual, lambda: lax.sqrt(total), scaled)


def _selecting(*arrays: Array, axes: Sequence[int] | None, plus: float) -> Array:
    """Add up three times, in one pass over memory where XLA fuses sums: an accelerator would wait for a branch.

    The root of a sum that is not chosen is that of 1, whose derivative is a number (in `lowering.source`'s modules JAX
    differentiates this).
    """
    total = _total(arrays, axes, plus)
    (down, up), overflows, vanishes = _factors(total), total == math.inf, total < _lost(total)
    scaled = [(overflows, down), (vanishes, up), (~(overflows | vanishes), 1.0)]
    small, large, usual = (
        lax.sqrt(jnp.where(chosen, _total([x * s for x in arrays] if s != 1 else arrays, axes, plus, s), 1.0)) / s
        for chosen, s in scaled
    )
    return jnp.where(overflows, small, jnp.where(vanishes, large, usual))


def _total(arrays: Sequence[Array], axes: Sequence[int] | None, plus: float, factor: Array | float = 1.0) -> Array:
    """Compute Σ x² of scaled arrays + factor² plus, with the reduced axes; of several arrays for all together."""
    sums = [jnp.sum(lax.square(array), axes, keepdims=True) for array in arrays]
    total = sums[0] if len(sums) == 1 else jnp.sum(jnp.stack([part.reshape(()) for part in sums]))
    scale = jnp.asarray(factor, total.dtype)
    return total + plus * scale * scale if plus else total


def _lost(total: Array) -> float:
    """Return what so many squares that vanish are not a digit of."""
    info = jnp.finfo(total.dtype)
    return float(info.tiny / info.eps) * _COUNT


def _factors(total: Array) -> tuple[float, float]:
    """Return the powers of two by which the largest and the least numbers have squares whose sums are in range."""
    info = jnp.finfo(total.dtype)
    return 2.0 ** -(info.maxexp // 2 + 16), 2.0 ** (24 - info.minexp // 2)
