"""JAX rules of the matrix factorisations."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.linalg.factorization import CholeskyParams


@lowers("_linalg_potrf")
def _potrf(p: CholeskyParams, a: Array) -> Array:
    # XLA factorises by the lower triangle; the upper one is the lower one of the transposed matrix.
    wide = jnp.promote_types(a.dtype, np.float32)  # LAPACK has no narrower numbers
    factor = lax.linalg.cholesky((a if p.lower else a.mT).astype(wide), symmetrize_input=False).astype(a.dtype)
    return factor if p.lower else factor.mT


@lowers("_linalg_potri")
def _potri(p: CholeskyParams, a: Array) -> Array:
    identity = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    inverse = lax.linalg.triangular_solve(a, identity, left_side=True, lower=p.lower)
    return inverse.mT @ inverse if p.lower else inverse @ inverse.mT


@lowers("_linalg_gelqf")
def _gelqf(p: Any, a: Array) -> tuple[Array, Array]:
    # The QR factors of Aᵀ come from the same reflections as the LQ factors of A.
    q, r = lax.linalg.qr(a.mT, full_matrices=False)
    return q.mT, r.mT


@lowers("_linalg_syevd")
def _syevd(p: Any, a: Array) -> tuple[Array, Array]:
    columns, values = lax.linalg.eigh(a, lower=True, symmetrize_input=False, sort_eigenvalues=True)
    vectors = columns.mT
    largest = jnp.take_along_axis(vectors, jnp.argmax(jnp.abs(vectors), -1, keepdims=True), -1)
    return jnp.where(largest < 0, -vectors, vectors), values


@lowers("_eigenvalue_gaps")
def _eigenvalue_gaps(p: Any, data: Array) -> Array:
    below = np.tri(data.shape[-1], k=-1, dtype=bool)
    gaps = jnp.where(below, data[..., :, None] - data[..., None, :], jnp.ones((), data.dtype))
    inverse = 1 / jnp.maximum(gaps, jnp.finfo(data.dtype).tiny)
    return jnp.where(below, inverse, jnp.zeros((), data.dtype))
