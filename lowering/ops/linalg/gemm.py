"""JAX rules of the matrix products of linear algebra."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.ir.rules.axes import normal_axis
from symjax_nnvm.ops.linalg import gemm as ops


def scaled(array: Array, factor: float) -> Array:
    """factor · array, without a multiplication by 1."""
    return array if factor == 1 else array * factor


def _turned(matrices: Array, transpose: bool) -> Array:
    return matrices.mT if transpose else matrices  # XLA folds it into the product


@lowers("_linalg_gemm")
def _gemm(p: ops.GemmParams, a: Array, b: Array, c: Array) -> Array:
    axis = normal_axis(p.axis, a.ndim)
    a, b = (jnp.moveaxis(x, axis, -2) for x in (a, b))
    product = jnp.moveaxis(_turned(a, p.transpose_a) @ _turned(b, p.transpose_b), -2, axis)
    return scaled(product, p.alpha) + scaled(c, p.beta)


@lowers("_linalg_syrk")
def _syrk(p: ops.SyrkParams, a: Array) -> Array:
    return scaled(a.mT @ a if p.transpose else a @ a.mT, p.alpha)


@lowers("_linalg_trmm")
def _trmm(p: ops.TriangularParams, a: Array, b: Array) -> Array:
    a = _turned(jnp.tril(a) if p.lower else jnp.triu(a), p.transpose)
    return scaled(b @ a if p.rightside else a @ b, p.alpha)
