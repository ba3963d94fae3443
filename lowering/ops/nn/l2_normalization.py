"""JAX rules of L2Normalization."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.wide import wide
from symjax_nnvm.ops.nn import l2_normalization as ops
from symjax_nnvm.ops.reduce.reduction import reduced_axes


@lowers("L2Normalization")
def _l2_normalization(p: ops.L2NormalizationParams, data: Array) -> tuple[Array, Array]:
    x = wide(data)
    axes = reduced_axes(ops.norm_reduction(p), x.ndim)
    norm = lax.sqrt(jnp.sum(lax.square(x), axes, keepdims=True) + p.eps)
    return (x / norm).astype(data.dtype), norm.astype(data.dtype)
