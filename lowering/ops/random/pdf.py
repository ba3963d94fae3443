"""JAX rules of the densities."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import xlog1py, xlogy

from lowering.core.rules import lowers
from symjax_nnvm.ops.random import pdf as ops

Formula = Callable[..., Array]
"""(sample x, *parameters that broadcast against it) → log p (or p), in at least float32."""


def _aligned(parameter: Array, sample: Array, event_axes: int) -> Array:
    """Return parameters [s]x[e] as [s]x1x[e], which broadcasts against a sample [s]x[t]x[e]."""
    split = parameter.ndim - event_axes
    gap = (1,) * (sample.ndim - parameter.ndim)
    return parameter.reshape(*parameter.shape[:split], *gap, *parameter.shape[split:])


@lowers("_repeat_over_samples")
def _repeat_over_samples(p: ops.RepeatOverSamplesParams, data: Array, sample: Array) -> Array:
    return jnp.broadcast_to(_aligned(data, sample, p.event_axes), sample.shape)


@lowers("_backward_repeat_over_samples")
def _backward_repeat_over_samples(p: ops.RepeatOverSamplesParams, ograd: Array, data: Array) -> Array:
    split = data.ndim - p.event_axes
    return jnp.sum(ograd, tuple(range(split, split + ograd.ndim - data.ndim)))


# xlogy(x, y) is x log y, and 0 where x is 0: MXNet has NaN at the ends of the support.


def _choices(x: Array, k: Array) -> Array:
    """Return log (Γ(x + k) / (x! Γ(k)))."""
    return lax.lgamma(x + k) - lax.lgamma(x + 1) - lax.lgamma(k)


def _generalized_negative_binomial(x: Array, mu: Array, alpha: Array) -> Array:
    k, product = 1 / alpha, alpha * mu
    return _choices(x, k) - k * lax.log1p(product) + xlogy(x, product / (1 + product))


def _dirichlet(x: Array, alpha: Array) -> Array:
    of_each = xlogy(alpha - 1, x) - lax.lgamma(alpha)
    return (jnp.sum(of_each, -1) + lax.lgamma(jnp.sum(alpha, -1))).reshape(x.shape[:-1] or (1,))


_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)

LOG_DENSITIES: dict[str, Formula] = {
    "dirichlet": _dirichlet,
    "exponential": lambda x, lam: lax.log(lam) - lam * x,
    "gamma": lambda x, alpha, beta: xlogy(alpha, beta) + xlogy(alpha - 1, x) - beta * x - lax.lgamma(alpha),
    "generalized_negative_binomial": _generalized_negative_binomial,
    "negative_binomial": lambda x, k, p: _choices(x, k) + xlogy(k, p) + xlog1py(x, -p),
    "normal": lambda x, mu, sigma: -0.5 * lax.square((x - mu) / sigma) - lax.log(sigma) - _LOG_ROOT_2_PI,
    "poisson": lambda x, lam: xlogy(x, lam) - lam - lax.lgamma(x + 1),
    "uniform": lambda x, low, high: jnp.broadcast_to(-lax.log(high - low), x.shape),
}


# Where a density is simpler than its logarithm it is also more precise: 1 / 2 and not exp(-log 2).
DENSITIES: dict[str, Formula] = {
    "exponential": lambda x, lam: lam * lax.exp(-lam * x),
    "normal": lambda x, mu, sigma: lax.exp(-0.5 * lax.square((x - mu) / sigma)) / (sigma * math.sqrt(2 * math.pi)),
    "uniform": lambda x, low, high: jnp.broadcast_to(1 / (high - low), x.shape),
}


def _lower(row: ops.Density, log_density: Formula, density: Formula | None) -> None:
    @lowers(f"_random_pdf_{row.name}")
    def rule(p: ops.PdfParams, sample: Array, *parameters: Array) -> Array:
        wide = jnp.promote_types(sample.dtype, jnp.float32)
        # JAX's own derivatives stop where those of the graph do.
        x = (lax.stop_gradient(sample) if row.is_count else sample).astype(wide)
        aligned = [_aligned(parameter.astype(wide), sample, row.event_axes) for parameter in parameters]
        if density is not None and not p.is_log:
            return density(x, *aligned).astype(sample.dtype)
        value = log_density(x, *aligned)
        return (value if p.is_log else lax.exp(value)).astype(sample.dtype)


for _row in ops.DENSITIES:
    _lower(_row, LOG_DENSITIES[_row.name], DENSITIES.get(_row.name))
