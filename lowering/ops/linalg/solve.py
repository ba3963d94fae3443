"""JAX rules of triangular solves, inverses and determinants."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.linalg.gemm import scaled
from lowering.ops.linalg.triangle import diagonal
from symjax_nnvm.ops.linalg import gemm as ops


@lowers("_linalg_trsm")
def _trsm(p: ops.TriangularParams, a: Array, b: Array) -> Array:
    b = scaled(b, p.alpha)
    return lax.linalg.triangular_solve(a, b, left_side=not p.rightside, lower=p.lower, transpose_a=p.transpose)


@lowers("_linalg_inverse")
def _inverse(p: Any, a: Array) -> Array:
    # A[order] = L U, so A⁻¹ = U⁻¹ L⁻¹ P; jnp.linalg.inv has the same steps, wrapped for JAX's own differentiation.
    lu, _, order = lax.linalg.lu(a)
    permutation = (order[..., None] == lax.iota(order.dtype, a.shape[-1])).astype(a.dtype)
    inner = lax.linalg.triangular_solve(lu, permutation, left_side=True, lower=True, unit_diagonal=True)
    return lax.linalg.triangular_solve(lu, inner, left_side=True, lower=False)


def _eliminated(a: Array) -> tuple[Array, Array, Array, Array]:
    """Return (the LU factors' diagonal, the sign of the row exchanges, LU, pivots)."""
    lu, pivots, _ = lax.linalg.lu(a)
    exchanges = jnp.sum(pivots != jnp.arange(a.shape[-1]), -1)
    return diagonal(lu), (1 - 2 * (exchanges % 2)).astype(a.dtype), lu, pivots


@lowers("_linalg_det", needs=("out_shapes",))
def _det(p: Any, a: Array, *, out_shapes: Any) -> tuple[Array, ...]:
    pivot_values, sign, lu, pivots = _eliminated(a)
    return (sign * jnp.prod(pivot_values, -1)).reshape(out_shapes[0]), lu, pivots


@lowers("_linalg_slogdet", needs=("out_shapes",))
def _slogdet(p: Any, a: Array, *, out_shapes: Any) -> tuple[Array, ...]:
    pivot_values, sign, lu, pivots = _eliminated(a)
    sign = sign * jnp.prod(jnp.sign(pivot_values), -1)
    logarithm = jnp.sum(jnp.log(jnp.abs(pivot_values)), -1)
    return sign.reshape(out_shapes[0]), logarithm.reshape(out_shapes[0]), lu, pivots
