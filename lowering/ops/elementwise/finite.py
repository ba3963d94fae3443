"""JAX rules of what is finite, and of rounding, in the NumPy dialect."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers, lowers_table
from lowering.ops.elementwise.unary import is_integer
from symjax_nnvm.ops.elementwise import finite as ops


def _verdict(function: Callable[[Array], Array], of_whole: bool = False) -> Callable[[Array], Array]:
    """Return a function with a truth value; of whole numbers, which are all finite, it is known."""
    return lambda x: lax.full_like(x, of_whole, np.bool_) if is_integer(x) else function(x)


lowers_table(
    {
        "_npi_isnan": _verdict(lambda x: x != x),
        "_npi_isinf": _verdict(jnp.isinf),
        "_npi_isfinite": _verdict(lax.is_finite, of_whole=True),
        "_npi_isposinf": _verdict(lambda x: x == np.inf),
        "_npi_isneginf": _verdict(lambda x: x == -np.inf),
        "_npi_logical_not": lambda x: x == lax.full_like(x, 0),
        "_npi_bitwise_not": lax.bitwise_not,
    }
)


@lowers("_npi_around")
def _around(p: ops.AroundParams, x: Array) -> Array:
    if is_integer(x):
        if p.decimals >= 0:
            return x
        scale = 10**-p.decimals
        if scale > jnp.iinfo(x.dtype).max:
            return lax.full_like(x, 0)
        return lax.div(x, lax.full_like(x, scale)) * lax.full_like(x, scale)
    with np.errstate(over="ignore"):
        scale = np.power(10.0, abs(p.decimals)).astype(x.dtype)
    larger = x * scale if p.decimals >= 0 else x / scale
    rounded = lax.round(larger, lax.RoundingMethod.TO_NEAREST_EVEN)
    return rounded / scale if p.decimals >= 0 else rounded * scale


@lowers("_npi_nan_to_num")
def _nan_to_num(p: ops.NanToNumParams, data: Array) -> Array:
    if is_integer(data):
        return data
    return jnp.nan_to_num(data, nan=p.nan, posinf=p.posinf, neginf=p.neginf)
