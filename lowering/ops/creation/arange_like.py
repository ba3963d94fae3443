"""JAX rules of the operators that count along an array's axes."""

from __future__ import annotations

from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import number_as
from symjax_nnvm.ops.creation import arange_like as ops


@lowers("_contrib_arange_like")
def _arange_like(p: ops.ArangeLikeParams, data: Array) -> Array:
    shape = data.shape if p.axis is None else (data.shape[p.axis],)
    numbers = lax.iota("int32", prod(shape))
    if p.repeat > 1:
        numbers = numbers // p.repeat
    # Integer ranges have integer steps.
    values = numbers.astype(data.dtype) * number_as(p.step, data.dtype)
    return (values + number_as(p.start, data.dtype)).reshape(shape)


@lowers("_contrib_index_array")
def _index_array(p: ops.IndexArrayParams, data: Array) -> Array:
    dtype = jax.dtypes.canonicalize_dtype(np.int64)
    return jnp.stack([lax.broadcasted_iota(dtype, data.shape, axis) for axis in p.chosen(data.ndim)], axis=-1)
