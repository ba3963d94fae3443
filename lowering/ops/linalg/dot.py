"""JAX rules of matrix products."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ir.rules.axes import normal_axis
from symjax_nnvm.ops.linalg import dot as ops


@lowers("dot")
def _dot(p: ops.DotParams, lhs: Array, rhs: Array) -> Array:
    i, j = ops.contracted_axes(p, lhs.ndim, rhs.ndim)
    out = lax.dot_general(lhs, rhs, (((i,), (j,)), ((), ())))
    return out.reshape(1) if out.ndim == 0 else out


@lowers("_backward_dot")
def _backward_dot(p: ops.DotGradientParams, ograd: Array, other: Array, operand: Array) -> Array:
    if operand.ndim == other.ndim == 1:
        return ograd * other
    of_lhs = p.operand == "lhs"
    axes = ops.contracted_axes(p, *((operand.ndim, other.ndim) if of_lhs else (other.ndim, operand.ndim)))
    axis, other_axis = axes if of_lhs else axes[::-1]
    free = tuple(range(operand.ndim - 1, ograd.ndim) if of_lhs else range(other.ndim - 1))
    kept_axes = [i for i in range(other.ndim) if i != other_axis]
    # The axis that dot sums over comes from `other`: it stands first or last, as in the operand.
    if axis == 0 and operand.ndim > 1:
        return lax.dot_general(other, ograd, ((kept_axes, free), ((), ())))
    return lax.dot_general(ograd, other, ((free, kept_axes), ((), ())))


def _products(p: ops.Transposed, lhs: Array, rhs: Array) -> Array:
    """Return matrix products over the last two axes, transposes folded into the contraction."""
    batch = tuple(range(lhs.ndim - 2))
    i = lhs.ndim - (2 if p.transpose_a else 1)
    j = rhs.ndim - (1 if p.transpose_b else 2)
    return lax.dot_general(lhs, rhs, (((i,), (j,)), (batch, batch)))


@lowers("batch_dot")
def _batch_dot(p: ops.DotParams, lhs: Array, rhs: Array) -> Array:
    return _products(p, lhs, rhs)


@lowers("_linalg_gemm2")
def _gemm2(p: ops.Gemm2Params, a: Array, b: Array) -> Array:
    axis = normal_axis(p.axis, a.ndim)
    out = _products(p, jnp.moveaxis(a, axis, -2), jnp.moveaxis(b, axis, -2))
    return jnp.moveaxis(out if p.alpha == 1 else out * p.alpha, -2, axis)


@lowers("khatri_rao")
def _khatri_rao(p: ops.KhatriRaoParams, first: Array, *matrices: Array) -> Array:
    out = first
    for matrix in matrices:
        out = (out[:, None, :] * matrix).reshape(out.shape[0] * matrix.shape[0], matrix.shape[1])
    return out


@lowers("_backward_khatri_rao")
def _backward_khatri_rao(p: ops.KhatriRaoGradientParams, ograd: Array, *matrices: Array) -> Array:
    rows = [matrix.shape[0] for matrix in matrices]
    product = ograd.reshape(*rows, ograd.shape[1])
    for i, matrix in enumerate(matrices):
        if i != p.number:
            product = product * matrix.reshape(*(rows[j] if j == i else 1 for j in range(len(rows))), matrix.shape[1])
    return jnp.sum(product, tuple(i for i in range(len(rows)) if i != p.number))
