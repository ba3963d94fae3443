"""JAX rules of the draws from distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random

from lowering.core.rules import lowers
from lowering.ops.creation.init import decided_shape
from lowering.ops.random import samplers
from lowering.ops.wide import wide_dtype
from symjax_nnvm.errors import LoweringError
from symjax_nnvm.ir.types import DType, Shape
from symjax_nnvm.ops.random import distributions as ops

Parameter = Array | float
"""A number, or an array that broadcasts against the shape to draw, in the dtype of the computation."""

Draw = Callable[..., Array]
"""(key, shape, dtype of the result, *parameters) → draws in a dtype at least as wide as float32."""


def draw_uniform(key: Array, shape: tuple[int, ...], dtype: Any, low: Parameter, high: Parameter) -> Array:
    """Rounding, in the computation or to the result's dtype, must not reach the excluded end."""
    draws = random.uniform(key, shape, wide_dtype(dtype)) * (high - low) + low
    low, high = jnp.asarray(low, dtype), jnp.asarray(high, dtype)
    last = jnp.nextafter(high, low)
    return jnp.clip(draws, *(bound.astype(draws.dtype) for bound in (jnp.minimum(low, last), jnp.maximum(low, last))))


def _normal(key: Array, shape: tuple[int, ...], dtype: Any, loc: Parameter, scale: Parameter) -> Array:
    return random.normal(key, shape, wide_dtype(dtype)) * scale + loc


def _exponential(key: Array, shape: tuple[int, ...], dtype: Any, lam: Parameter) -> Array:
    return random.exponential(key, shape, wide_dtype(dtype)) / lam


def _gamma(key: Array, shape: tuple[int, ...], dtype: Any, alpha: Parameter, beta: Parameter) -> Array:
    return samplers.gamma(key, alpha, shape, wide_dtype(dtype)) * beta


def _poisson(key: Array, shape: tuple[int, ...], dtype: Any, lam: Parameter) -> Array:
    return samplers.poisson(key, lam, shape, wide_dtype(dtype))


def _negative_binomial(key: Array, shape: tuple[int, ...], dtype: Any, k: Parameter, p: Parameter) -> Array:
    """Return a Poisson number whose rate is drawn from a gamma distribution."""
    return _poisson_of_gamma(key, shape, dtype, k, (1 - p) / p, k == 0, 0.0)


def _generalized_negative_binomial(
    key: Array, shape: tuple[int, ...], dtype: Any, mu: Parameter, alpha: Parameter
) -> Array:
    certain = alpha == 0
    safe = _where(certain, 1.0, alpha)
    return _poisson_of_gamma(key, shape, dtype, 1 / safe, safe * mu, certain, mu)


def _where(condition: Array | bool, x: Parameter, y: Parameter) -> Parameter:
    """A choice; between numbers it is made while tracing."""
    return (x if condition else y) if isinstance(condition, bool) else jnp.where(condition, x, y)


def _poisson_of_gamma(
    key: Array,
    shape: tuple[int, ...],
    dtype: Any,
    alpha: Parameter,
    beta: Parameter,
    certain: Array | bool,
    rate: Parameter,
) -> Array:
    """Draw from a Poisson distribution whose rate is drawn; where `certain`, the rate is not drawn."""
    of_rate, of_number = random.split(key)
    drawn = _gamma(of_rate, shape, dtype, _where(certain, 1.0, alpha), beta)
    return _poisson(of_number, shape, dtype, _where(certain, rate, drawn))


DRAWS: dict[str, Draw] = {
    "exponential": _exponential,
    "gamma": _gamma,
    "generalized_negative_binomial": _generalized_negative_binomial,
    "negative_binomial": _negative_binomial,
    "normal": _normal,
    "poisson": _poisson,
    "uniform": draw_uniform,
}


_ONE_BY_ONE = ("exponential", "normal", "uniform")
"""Distributions each of whose draws is made of the bits of its own place."""


def _lower(row: ops.Distribution, draw: Draw) -> None:
    """Register the rules of a distribution's three operators."""
    names = [field.name for field in fields(row.params)]

    def numbers(p: Any) -> list[float]:
        return [float(getattr(p, name)) for name in names]

    @lowers(f"_random_{row.name}", needs=("key", "out_shapes", "out_dtypes"), one_by_one=row.name in _ONE_BY_ONE)
    def of_shape(p: ops.ArrayParams, *, key: Array, out_shapes: list[Shape | None], out_dtypes: list[DType]) -> Array:
        dtype = jax.dtypes.canonicalize_dtype(out_dtypes[0])
        return draw(key, decided_shape(p, out_shapes), dtype, *numbers(p)).astype(dtype)

    @lowers(f"_random_{row.name}_like", needs=("key",))
    def like(p: Any, data: Array, *, key: Array) -> Array:
        return draw(key, data.shape, data.dtype, *numbers(p)).astype(data.dtype)

    @lowers(f"_sample_{row.name}", needs=("key", "out_dtypes"))
    def of_arrays(p: ops.SampleParams, *parameters: Array, key: Array, out_dtypes: list[DType]) -> Array:
        dtype = jax.dtypes.canonicalize_dtype(out_dtypes[0])
        # JAX's own derivatives stop where those of the graph do.
        wide = [lax.stop_gradient(x).astype(wide_dtype(dtype)) for x in parameters]
        aligned = [x.reshape(*x.shape, *(1,) * len(p.shape)) for x in wide]
        return draw(key, (*wide[0].shape, *p.shape), dtype, *aligned).astype(dtype)


for _row in ops.DISTRIBUTIONS:
    _lower(_row, DRAWS[_row.name])


@lowers("_random_randint", needs=("key", "out_shapes"))
def _randint(p: ops.RandintParams, *, key: Array, out_shapes: list[Shape | None]) -> Array:
    shape = decided_shape(p, out_shapes)
    dtype = jax.dtypes.canonicalize_dtype(p.dtype or "int32")
    info = jnp.iinfo(dtype)
    if not info.min <= p.low < p.high <= info.max + 1:
        raise LoweringError(
            "Integers of 64 bits are switched off in JAX",
            param="low and high",
            expected=f"{info.min} ≤ low < high ≤ {info.max + 1}",
            got=f"{p.low} and {p.high}",
            fix="Run inside `with jax.enable_x64(True):`.",
        )
    # Unsigned distances from low, which is then added modulo 2ⁿ: the range may be all of the dtype's.
    unsigned = np.dtype(f"uint{info.bits}")
    span = p.high - p.low
    if span == 2**info.bits:
        return lax.bitcast_convert_type(random.bits(key, shape, unsigned), dtype)
    distance = random.randint(key, shape, unsigned.type(0), unsigned.type(span), unsigned)
    return lax.bitcast_convert_type(distance, dtype) + np.asarray(p.low, dtype)
