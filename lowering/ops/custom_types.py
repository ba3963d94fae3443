"""JAX rules of the types of `Custom` that MXNet registers itself."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, random

from lowering.core.rules import lowers_custom
from lowering.ops.indexing.ravel_multi_index import unravelled
from symjax_nnvm.ops import custom_types as ops


@lowers_custom("empty_like_fallback")
def _empty_like(p: ops.EmptyLikeParams, prototype: Array) -> Array:
    return jnp.zeros(prototype.shape, p.dtype or prototype.dtype)


@lowers_custom("resize_fallback")
def _resize(p: ops.ResizeParams, a: Array) -> Array:
    return jnp.resize(a, p.new_shape)


@lowers_custom("unravel_index_fallback")
def _unravel_index(p: ops.UnravelParams, indices: Array) -> Array:
    return unravelled(indices, p.shape)


@lowers_custom("mvn_fallback", needs=("key",))
def _multivariate_normal(p: ops.NormalVectorParams, mean: Array, cov: Array, *, key: Array) -> Array:
    shape = (*(p.size or ()), *jnp.broadcast_shapes(mean.shape, cov.shape[:-1]))
    root = jnp.linalg.cholesky(cov.astype(jnp.promote_types(cov.dtype, jnp.float32))).astype(cov.dtype)
    return mean + jnp.einsum("...jk,...k->...j", root, random.normal(key, shape, mean.dtype))
