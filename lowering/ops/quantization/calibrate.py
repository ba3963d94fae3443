"""The JAX rule of _contrib_calibrate_entropy."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import Numbers, lowers
from symjax_nnvm.ops.quantization.calibrate import CalibrateEntropyParams

_LITTLE = 0.0001
"""What a bin gets in which a distribution has nothing."""


def _smoothed(p: Array, inside: Array) -> tuple[Array, Array]:
    """A distribution without zeros inside, what they get taken off the others, and whether there is one."""
    is_zero = inside & (p == 0)
    zeros, others = is_zero.sum(dtype=jnp.float32), (inside & (p != 0)).sum(dtype=jnp.float32)
    taken = _LITTLE * zeros / jnp.maximum(others, 1)
    smoothed = p + jnp.where(is_zero, _LITTLE, jnp.where(inside, -taken, 0.0))
    return smoothed, (others > 0) & (taken < 1)


@lowers("_contrib_calibrate_entropy", numbers=Numbers("a loop runs over the bins of the histogram"))
def _calibrate(p: CalibrateEntropyParams, hist: Array, edges: Array):
    bins, quantized = hist.shape[0], p.num_quantized_bins
    middle, places = bins // 2, jnp.arange(bins)

    def divergence(half: Array) -> Array:
        """How much the histogram clipped to `half` bins on each side of the middle differs from that quantised."""
        start, stop = middle - half, middle + half + 1
        inside = (places >= start) & (places < stop)
        counts = jnp.where(inside & (places > start), jnp.floor(hist), 0.0)
        clipped = jnp.where(inside, hist, 0.0)
        below = jnp.where(places < start, hist, 0.0).sum()
        above = jnp.where(places >= stop, hist, 0.0).sum()
        clipped = clipped + jnp.where(places == start, below, 0.0) + jnp.where(places == stop - 1, above, 0.0)
        merged = (stop - start) // quantized
        bin_of = jnp.clip((places - start) // jnp.maximum(merged, 1), 0, quantized - 1)
        sums = jnp.zeros(quantized, jnp.float32).at[bin_of].add(counts)
        filled = jnp.zeros(quantized, jnp.float32).at[bin_of].add((counts != 0).astype(jnp.float32))
        shares = sums / jnp.maximum(filled, 1)
        spread = jnp.where(inside & (clipped != 0), shares[bin_of], 0.0)
        first, _ = _smoothed(clipped, inside)
        second, is_one = _smoothed(spread, inside)
        first, second = first / first.sum(), second / second.sum()
        terms = jnp.where(inside, first * jnp.log(jnp.where(inside, first / second, 1.0)), 0.0)
        return jnp.where(is_one, terms.sum(), jnp.inf)

    halves = jnp.arange(quantized // 2, middle + 1)
    divergences = lax.map(divergence, halves)
    best = jnp.argmin(divergences)
    threshold = edges[middle + 1 + halves[best]]
    return threshold.reshape(1), divergences[best].reshape(1).astype(jnp.float32)
