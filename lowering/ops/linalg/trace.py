"""JAX rules of trace."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.ops.linalg import trace as ops


def _diagonal(p: ops.TraceParams, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return ones on the diagonal and zeros elsewhere, (r, c) among axes of size 1."""
    axes = p.axis1 % len(shape), p.axis2 % len(shape)
    rows, columns = (shape[axis] for axis in axes)
    ones = np.eye(rows, columns, p.offset, dtype=dtype)
    inserted = np.expand_dims(ones, tuple(range(2, len(shape))))
    return np.moveaxis(inserted, (0, 1), axes)


@lowers("_np_trace")
def _trace(p: ops.TraceParams, data: Array) -> Array:
    axes = p.axis1 % data.ndim, p.axis2 % data.ndim
    chosen = jnp.where(_diagonal(p, data.shape, np.dtype(bool)), data, jnp.zeros((), data.dtype))
    return jnp.sum(chosen, axes, dtype=data.dtype)


@lowers("_backward_np_trace")
def _backward_trace(p: ops.TraceParams, ograd: Array, data: Array) -> Array:
    axes = tuple(sorted((p.axis1 % data.ndim, p.axis2 % data.ndim)))
    return jnp.broadcast_to(jnp.expand_dims(ograd, axes) * _diagonal(p, data.shape, ograd.dtype), data.shape)
