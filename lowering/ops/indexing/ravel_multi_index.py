"""JAX rules of ravel_multi_index and unravel_index."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.indexing import ravel_multi_index as ops


def _whole(numbers: Array) -> Array:
    """Return numbers as integers; fractions are cut off."""
    return numbers.astype(jax.dtypes.canonicalize_dtype("int64"))


@lowers("_ravel_multi_index")
def _ravel_multi_index(p: ops.RavelParams, data: Array) -> Array:
    rows = _whole(data)
    place = rows[0]
    for row, dim in zip(rows[1:], p.dims[1:], strict=True):
        place = place * dim + row
    return place.astype(data.dtype)


def unravelled(places: Array, dims: Sequence[int]) -> Array:
    """Return places in memory as indices along each axis, one row for each, in the dtype of the places."""
    quotient, rows = _whole(places), []
    for dim in reversed(dims[1:]):
        divisor = jnp.asarray(dim, quotient.dtype)
        rows.append(lax.rem(quotient, divisor))  # a negative place has negative indices, as in C
        quotient = lax.div(quotient, divisor)
    return jnp.stack([quotient, *reversed(rows)]).astype(places.dtype)


@lowers("_unravel_index")
def _unravel_index(p: ops.RavelParams, data: Array) -> Array:
    return unravelled(data.reshape(-1), p.dims)
