"""JAX rules of norm."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.norms import norm
from symjax_nnvm.ops.linalg import norm as ops
from symjax_nnvm.ops.reduce.reduction import reduced_axes, reduced_shape


def _sums(p: ops.MatrixNormParams, data: Array) -> Array | None:
    """Return the sums of absolute values of which the norm is the largest or smallest. None: it is another norm."""
    summed = ops.summed_axes(p, data.ndim)
    return None if summed is None else jnp.sum(jnp.abs(data), summed, keepdims=True)


@lowers("_npi_norm")
def _norm(p: ops.MatrixNormParams, data: Array) -> Array:
    axes = reduced_axes(p, data.ndim)
    if (sums := _sums(p, data)) is not None:
        total = sums.max(axes) if p.ord > 0 else sums.min(axes)
    elif ops.is_of_matrices(p, data.ndim):
        values = jnp.linalg.svd(jnp.moveaxis(data, axes, (-2, -1)), compute_uv=False)
        total = (
            jnp.sum(values, -1) if p.flag == ops.NUCLEAR else jnp.max(values, -1) if p.ord > 0 else jnp.min(values, -1)
        )
    elif p.flag != ops.BY_ORD or p.ord == 2:
        total = norm(data, axes=axes)
    elif p.ord == 0:
        total = jnp.sum(data != 0, axes)
    else:
        size = jnp.abs(data)
        total = jnp.sum(size, axes) if p.ord == 1 else jnp.sum(size**p.ord, axes) ** (1 / p.ord)
    return total.astype(data.dtype).reshape(reduced_shape(p, data.shape))


@lowers("_norm_direction")
def _norm_direction(p: ops.MatrixNormParams, data: Array) -> Array:
    axes = reduced_axes(p, data.ndim)
    if (sums := _sums(p, data)) is not None:
        extreme = sums.max(axes, keepdims=True) if p.ord > 0 else sums.min(axes, keepdims=True)
        return jnp.sign(data) * (sums == extreme)
    if not ops.is_of_matrices(p, data.ndim):
        ratio = jnp.abs(data) / jnp.expand_dims(_norm(replace(p, keepdims=False), data), axes)
        return jnp.sign(data) * (ratio ** (p.ord - 1) if p.ord else jnp.zeros_like(data))
    u, values, v = lax.linalg.svd(jnp.moveaxis(data, axes, (-2, -1)), full_matrices=False)
    if p.flag != ops.NUCLEAR:
        place = 0 if p.ord > 0 else values.shape[-1] - 1
        u, v = u[..., place : place + 1], v[..., place : place + 1, :]
    return jnp.moveaxis(u @ v, (-2, -1), axes)
