"""JAX rules of the casts for training in half precision, and of the checks and sums over many arrays."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from lowering.optim import layerwise_updates
from symjax_nnvm.ops.elementwise import amp as ops


@lowers("amp_cast")
def _amp_cast(p: ops.AmpCastParams, data: Array) -> Array:
    return cast(data, p.dtype) if data.dtype.name in ops.CASTABLE else data


@lowers("amp_multicast")
def _amp_multicast(p: ops.AmpMulticastParams, *arrays: Array) -> list[Array]:
    common = ops.common_dtype([array.dtype.name for array in arrays], p.cast_narrow)
    return [array.astype(common) if array.dtype.name in ops.CASTABLE else array for array in arrays]


@lowers("all_finite", "multi_all_finite")
def _all_finite(p: Any, *arrays: Array) -> Array:
    every = functools.reduce(lax.bitwise_and, [jnp.all(lax.is_finite(array)) for array in arrays])
    return every.astype(np.float32).reshape(1)


@lowers("multi_sum_sq")
def _multi_sum_sq(p: ops.NumArraysParams, *arrays: Array) -> Array:
    return jnp.stack([layerwise_updates.sum_of_squares(array) for array in arrays]).astype(np.float32)


@lowers("reset_arrays")
def _reset_arrays(p: ops.NumArraysParams, *arrays: Array) -> list[Array]:
    zeros = [lax.full_like(array, 0) for array in arrays]
    return [*zeros, *zeros]
