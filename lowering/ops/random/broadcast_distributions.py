"""JAX rules of the draws whose parameters are numbers or arrays, which are broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from lowering.ops.random import samplers
from lowering.ops.random.distributions import draw_uniform
from lowering.ops.random.multinomial import draw_classes
from lowering.ops.wide import wide_dtype
from symjax_nnvm.ops.random import broadcast_distributions as ops

Shape = tuple[int, ...]
Noise = Callable[[Array, Shape, Any], Array]
"""(key, shape, dtype) → noise that depends on no parameter."""

Sample = Callable[..., Array]
"""(noise, *parameters) → draws."""


def _rayleigh_noise(key: Array, shape: Shape, dtype: Any) -> Array:
    return lax.sqrt(2 * random.exponential(key, shape, dtype))


def _affine(noise: Array, loc: Array, scale: Array) -> Array:
    return loc + noise * scale


def _scaled(noise: Array, scale: Array) -> Array:
    return noise * scale


NOISY: dict[str, tuple[Noise, Sample]] = {
    "_npi_normal": (random.normal, _affine),
    "_npi_normal_n": (random.normal, _affine),
    "_npi_gumbel": (random.gumbel, _affine),
    "_npi_logistic": (random.logistic, _affine),
    "_npi_exponential": (random.exponential, _scaled),
    "_npi_rayleigh": (_rayleigh_noise, _scaled),
    "_npi_pareto": (random.exponential, lambda noise, a: jnp.exp(noise / a) - 1),
    "_npi_weibull": (random.exponential, lambda noise, a: noise ** (1 / a)),
}


def _gamma(key: Array, shape: Shape, dtype: Any, alpha: Array, scale: Array) -> Array:
    return samplers.gamma(key, alpha, shape, wide_dtype(dtype)) * scale


def _power(key: Array, shape: Shape, dtype: Any, a: Array) -> Array:
    return (1 - random.uniform(key, shape, wide_dtype(dtype))) ** (1 / a)


PLAIN: dict[str, Callable[..., Array]] = {
    "_npi_powerd": _power,
    "_npi_uniform": draw_uniform,
    "_npi_uniform_n": draw_uniform,
    "_npi_gamma": _gamma,
}
"""Distribution → (key, shape, dtype, parameters) → draws."""


def _lower(row: ops.BroadcastDistribution) -> None:
    @lowers(row.name, needs=("key",))
    def rule(p: Any, *arrays: Array, key: Array) -> Array | tuple[Array, Array]:
        dtype = jax.dtypes.canonicalize_dtype(getattr(p, "dtype", "float32"))
        wide = wide_dtype(dtype)
        _, (inferred, *_) = ops.drawn_shapes(row, p, [array.shape for array in arrays], [None])
        shape: Any = inferred  # as sizes of arrays are known, so is every one of it
        remaining = iter(arrays)
        numbers = (getattr(p, name) for name in row.arrays)
        parameters = [
            next(remaining).astype(wide) if number is None else jnp.asarray(number, wide) for number in numbers
        ]
        if not row.has_noise:  # JAX's own derivatives stop where those of the graph do
            return PLAIN[row.name](key, shape, dtype, *map(lax.stop_gradient, parameters)).astype(dtype)
        make_noise, sample = NOISY[row.name]
        noise = make_noise(key, shape, wide)
        return sample(noise, *parameters).astype(dtype), noise


for _row in ops.DISTRIBUTIONS:
    _lower(_row)


@lowers("_npi_bernoulli", needs=("key",))
def _bernoulli(p: ops.BernoulliParams, *arrays: Array, key: Array) -> Array:
    parameter = jnp.float32(p.number) if p.number is not None else lax.stop_gradient(arrays[0]).astype(np.float32)
    probability = jax.nn.sigmoid(parameter) if p.is_logit else parameter
    shape = arrays[0].shape if p.size is None and arrays else p.size or ()
    return cast(random.uniform(key, shape, np.float32) < probability, p.dtype)


@lowers("_npi_choice", needs=("key",))
def _choice(p: ops.ChoiceParams, *arrays: Array, key: Array) -> Array:
    weights: Any = lax.stop_gradient(arrays[-1]) if p.weighted else None
    count = p.a if p.a is not None else arrays[0].shape[0]
    shape = p.size or ()
    if p.replace and weights is None:
        chosen = random.randint(key, shape, 0, count, np.int32)
    elif p.replace:
        chosen = draw_classes(key, weights, shape).reshape(shape)
    else:
        chosen = random.choice(key, count, shape, replace=False, p=weights)
    return chosen.astype(jax.dtypes.canonicalize_dtype(np.int64))


@lowers("_npi_multinomial", needs=("key",))
def _multinomial(p: ops.NumpyMultinomialParams, *arrays: Array, key: Array) -> Array:
    pvals = jnp.asarray(p.pvals, np.float32) if p.pvals is not None else lax.stop_gradient(arrays[0])
    (count,), size = pvals.shape, p.size or ()
    if not count:
        return jnp.zeros((*size, 0), jax.dtypes.canonicalize_dtype(np.int64))
    rows = math.prod(size)
    # What the probabilities before the last leave is the last one's, as in NumPy.
    probabilities = pvals.at[-1].set(jnp.maximum(1 - jnp.sum(pvals[:-1]), 0))
    classes = draw_classes(key, probabilities, (rows, p.n)).reshape(rows, p.n)
    counts = jnp.zeros((rows, count), jax.dtypes.canonicalize_dtype(np.int64))
    places = lax.broadcasted_iota(np.int32, classes.shape, 0)
    return counts.at[places, classes].add(1, mode="promise_in_bounds").reshape(*size, count)
