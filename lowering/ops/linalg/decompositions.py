"""JAX rules of the decompositions and equations of the NumPy dialect."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from symjax_nnvm.ops.linalg import decompositions as ops


def _signs(vectors: Array) -> Array:
    """Return 1 or -1 for each column, of the component of largest magnitude."""
    largest = jnp.take_along_axis(vectors, jnp.argmax(jnp.abs(vectors), -2, keepdims=True), -2)
    return jnp.where(largest < 0, -1, 1).astype(vectors.dtype)


@lowers("_npi_svd")
def _svd(p: Any, a: Array) -> tuple[Array, Array, Array]:
    if 0 in a.shape:
        m = a.shape[-2]
        return jnp.zeros((*a.shape[:-2], m, m), a.dtype), jnp.zeros(a.shape[:-1], a.dtype), a
    u, values, v = lax.linalg.svd(a, full_matrices=False)
    signs = _signs(v.mT)
    return u * signs, values, v * signs.mT


def _in_float(a: Array) -> Array:
    return a if jnp.issubdtype(a.dtype, jnp.floating) else cast(a, "float64")


def _in_one_float(a: Array, b: Array) -> tuple[Array, Array]:
    return (_in_float(a), _in_float(b)) if a.dtype == b.dtype else (cast(a, "float64"), cast(b, "float64"))


def _symmetric(p: ops.EighParams, a: Array) -> tuple[Array, Array]:
    vectors, values = lax.linalg.eigh(_in_float(a), lower=p.UPLO == "L", symmetrize_input=False, sort_eigenvalues=True)
    return values, vectors * _signs(vectors) if vectors.size else vectors


lowers("_npi_eigh")(_symmetric)
lowers("_npi_eigvalsh")(lambda p, a: _symmetric(p, a)[0])


def _real(x: Array) -> Array:
    return jnp.where(x.imag == 0, x.real, jnp.nan)


def _general(p: Any, a: Array) -> tuple[Array, Array]:
    values, vectors = lax.linalg.eig(_in_float(a), compute_left_eigenvectors=False)
    return _real(values), _real(vectors)


lowers("_npi_eig")(_general)
lowers("_npi_eigvals")(lambda p, a: _general(p, a)[0])


def _solved(a: Array, b: Array) -> Array:
    """A[order] = L U, so X = U⁻¹ L⁻¹ B[order]."""
    lu, _, order = lax.linalg.lu(a)
    permuted = jnp.take_along_axis(b, order[..., None], -2)
    inner = lax.linalg.triangular_solve(lu, permuted, left_side=True, lower=True, unit_diagonal=True)
    return lax.linalg.triangular_solve(lu, inner, left_side=True, lower=False)


@lowers("_npi_solve")
def _solve(p: Any, a: Array, b: Array) -> Array:
    a, b = _in_one_float(a, b)
    return _solved(a, b[..., None])[..., 0] if b.ndim < a.ndim else _solved(a, b)


def _pinv(a: Array, rcond: Array) -> Array:
    u, values, v = lax.linalg.svd(a, full_matrices=False)
    least = rcond[..., None] * jnp.max(values, -1, keepdims=True)
    inverse = jnp.where(values > least, 1 / values, jnp.zeros((), a.dtype))
    return (v.mT * inverse[..., None, :]) @ u.mT


@lowers("_npi_pinv")
def _pinv_of_array(p: ops.PinvParams, a: Array, rcond: Array) -> Array:
    return _pinv(a, rcond)


@lowers("_npi_pinv_scalar_rcond")
def _pinv_of_number(p: ops.PinvScalarParams, a: Array) -> Array:
    return _pinv(a, jnp.asarray(p.rcond, a.dtype))


@lowers("_npi_tensorinv")
def _tensorinv(p: ops.TensorinvParams, a: Array) -> Array:
    side = math.prod(a.shape[: p.ind])
    inverse = _solved(a.reshape(side, side), jnp.eye(side, dtype=a.dtype))
    return inverse.reshape((*a.shape[p.ind :], *a.shape[: p.ind]))


@lowers("_tensor_matrix")
def _tensor_matrix(p: ops.TensorMatrixParams, data: Array) -> Array:
    side = math.isqrt(data.size)
    return data.transpose(ops.moved_last(p, data.ndim)).reshape(side, side)


@lowers("_backward_tensor_matrix")
def _backward_tensor_matrix(p: ops.TensorMatrixParams, ograd: Array, data: Array) -> Array:
    order = ops.moved_last(p, data.ndim)
    return ograd.reshape([data.shape[i] for i in order]).transpose(np.argsort(order))


@lowers("_npi_tensorsolve")
def _tensorsolve(p: ops.TensorsolveParams, a: Array, b: Array) -> Array:
    a, b = _in_one_float(a, b)
    order = ops.moved_last(p, a.ndim)
    matrix = a.transpose(order).reshape(b.size, b.size)
    return _solved(matrix, b.reshape(-1, 1)).reshape([a.shape[i] for i in order[b.ndim - a.ndim :]])
