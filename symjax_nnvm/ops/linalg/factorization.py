"""Factorisations: linalg_potrf and linalg_potri (Cholesky), linalg_gelqf (LQ), linalg_syevd (symmetric eigenvectors).

The gradients follow M. Seeger, A. Hetzel, Z. Dai, E. Meissner, N. D. Lawrence: "Auto-Differentiating Linear Algebra"
(2017, arXiv:1710.08717), whose operators these are.
"""

from __future__ import annotations

from math import prod
from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, FlopsRule
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.ops.linalg.shapes import (
    batch_of,
    of_one_rank,
    plus_transposed,
    solver_type,
    square_shapes,
    symmetrised,
    transposed,
)

# -- Cholesky --------------------------------------------------------------------------------------------------------


class CholeskyParams(Params):
    lower: bool = param(True, doc="whether the Cholesky factor is lower-triangular; MXNet takes it and does not say so")


def _as_lower(p: CholeskyParams, matrices: NodeEntry) -> NodeEntry:
    """The lower-triangular matrices L that the parameters' triangle holds: Lᵀ where it is the upper one."""
    return matrices if p.lower else transposed(matrices)


def _potrf_gradient(node: Node, ograds: Entries):
    """dA = ½ L⁻ᵀ Φ L⁻¹ for the symmetric Φ with the lower triangle of Lᵀ dL."""
    p = node.attrs.parsed
    factor = _as_lower(p, NodeEntry(node, 0, 0))
    phi = symmetrised(apply("_linalg_trmm", factor, _as_lower(p, ograds[0]), transpose=True))
    left = apply("_linalg_trsm", factor, phi, transpose=True, alpha=0.5)
    return [apply("_linalg_trsm", factor, left, rightside=True)]


def _potri_gradient(node: Node, ograds: Entries):
    """dL = lower triangle of -B (dB + dBᵀ) L⁻ᵀ for B = (L Lᵀ)⁻¹; A is L or Lᵀ."""
    p, b = node.attrs.parsed, NodeEntry(node, 0, 0)
    factor = _as_lower(p, node.inputs[0])
    left = apply("_linalg_gemm2", b, plus_transposed(ograds[0]), alpha=-1.0)
    return [_as_lower(p, apply("_triangle", apply("_linalg_trsm", factor, left, transpose=True, rightside=True)))]


def square_flops(factor: int) -> FlopsRule:
    """A cost of `number` times n³ for each matrix (…, n, n), or m n² for (…, m, n)."""
    return lambda p, ins, outs: Flops(factor * prod(ins[0]) * ins[0][-1])


_POTRF: dict[str, Any] = {
    "params": CholeskyParams,
    "inputs": ("A",),
    "infer_shape": square_shapes,
    "infer_type": solver_type,
    "gradient": _potrf_gradient,
    "inplace": ((0, 0),),
    "flops": square_flops(1),
    "deviation": "of a matrix that is not positive definite the result is NaN; MXNet stops with an error",
    "not_derivative": "only a triangle is read, but the gradient is that of symmetric changes",
    "doc": "Cholesky factor of each symmetric positive-definite matrix A (LAPACK potrf): the lower-triangular L with "
    "A = L Lᵀ, or, not lower, the upper-triangular U with A = Uᵀ U. Only that triangle of A is read; the gradient is "
    "that of symmetric changes. Of other matrices it is NaN, where MXNet has an error.",
}
register_op("_linalg_potrf", aliases=("linalg_potrf",), **_POTRF)
register_op("_npi_cholesky", twin_of="_linalg_potrf", **{**_POTRF, "infer_type": float_type})
register_op(
    "_linalg_potri",
    aliases=("linalg_potri",),
    params=CholeskyParams,
    inputs=("A",),
    infer_shape=square_shapes,
    infer_type=solver_type,
    gradient=_potri_gradient,
    flops=square_flops(1),
    doc="(A Aᵀ)⁻¹ of each lower-triangular matrix A (LAPACK potri), or, not lower, (Aᵀ A)⁻¹ of each upper-triangular "
    "one: the inverse of the matrix whose Cholesky factor is given. Of A that triangle is read, and its gradient has "
    "that one only.",
)

# -- LQ --------------------------------------------------------------------------------------------------------------


def _gelqf_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """A (b…, m, n) → Q (b…, m, n), L (b…, m, m); m ≤ n."""
    shapes = of_one_rank(ins[0], *outs)
    if shapes is None:
        return ins, outs
    a, q, l = shapes  # noqa: E741  (the factor's name)
    m, n = known(a[-2], q[-2], *l[-2:]), known(a[-1], q[-1])
    if m is not None and n is not None and not is_at_most(m, n):
        raise InferenceError("More rows than columns", input="A", expected="m ≤ n", got=format_shape(a))
    batch = batch_of(a, q, l)
    return [(*batch, m, n)], [(*batch, m, n), (*batch, m, m)]


def _gelqf_gradient(node: Node, ograds: Entries):
    """dA = L⁻ᵀ (dQ + Φ Q) for the symmetric Φ with the lower triangle of Lᵀ dL - dQ Qᵀ."""
    q, factor = NodeEntry(node, 0, 0), NodeEntry(node, 1, 0)
    dq, dfactor = ograds
    within = apply(
        "elemwise_sub",
        apply("_linalg_trmm", factor, dfactor, transpose=True),
        apply("_linalg_gemm2", dq, q, transpose_b=True),
    )
    inner = apply("_linalg_gemm", symmetrised(within), q, dq)
    return [apply("_linalg_trsm", factor, inner, transpose=True)]


register_op(
    "_linalg_gelqf",
    aliases=("linalg_gelqf",),
    inputs=("A",),
    num_outputs=2,
    infer_shape=_gelqf_shapes,
    infer_type=solver_type,
    gradient=_gelqf_gradient,
    flops=square_flops(4),
    doc="Q and L with A = L Q, L lower-triangular, Q Qᵀ = I (LAPACK gelqf and orglq), where m ≤ n. "
    "Signs are those of Householder's reflections, as LAPACK takes them; A needs full rank for a gradient.",
)

# -- eigenvectors ----------------------------------------------------------------------------------------------------


def _syevd_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """A (b…, n, n) → U (b…, n, n), L (b…, n)."""
    values = None if outs[1] is None else (*outs[1], outs[1][-1] if outs[1] else None)
    (a, u, _), _ = square_shapes(p, [ins[0], outs[0], values], [])
    return [a], [u, outs[1] if a is None else a[:-1]]


def _syevd_gradient(node: Node, ograds: Entries):
    """dA = Uᵀ (dΛ + ½ (N + Nᵀ)) U, where N_ij = (dU Uᵀ - U dUᵀ)_ij / (λ_i - λ_j) below the diagonal."""
    u, values = NodeEntry(node, 0, 0), NodeEntry(node, 1, 0)
    du, dvalues = ograds
    turning = apply("_linalg_gemm2", du, u, transpose_b=True)
    turning = apply("elemwise_sub", turning, transposed(turning))
    scaled = apply("elemwise_mul", turning, apply("_eigenvalue_gaps", values))
    middle = apply(
        "elemwise_add",
        apply("_linalg_makediag", dvalues),
        apply("_mul_scalar", plus_transposed(scaled), scalar=0.5),
    )
    left = apply("_linalg_gemm2", u, middle, transpose_a=True)
    return [apply("_linalg_gemm2", left, u)]


def _gaps_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (b…, n) ↔ (b…, n, n)."""
    data, out = ins[0], outs[0]
    if data is None and out:
        data = out[:-1]
    return [data], [(*data, data[-1]) if data else out]


def _gaps_gradient(node: Node, ograds: Entries):
    """dF_ij = -F_ij² (dλ_i - dλ_j)."""
    gaps = NodeEntry(node, 0, 0)
    slope = apply("elemwise_mul", ograds[0], apply("square", gaps))
    return [apply("elemwise_sub", apply("sum", slope, axis=-2), apply("sum", slope, axis=-1))]


register_op(
    "_linalg_syevd",
    inputs=("A",),
    num_outputs=2,
    infer_shape=_syevd_shapes,
    infer_type=solver_type,
    gradient=_syevd_gradient,
    flops=square_flops(10),
    not_derivative="only a triangle is read, but the gradient is that of symmetric changes",
    doc="U and L with A = Uᵀ diag(L) U for symmetric matrices A (LAPACK syevd): eigenvectors in the rows of U, "
    "eigenvalues ascending in L. Only the lower triangle is read; the gradient is that of symmetric changes. The "
    "component of largest magnitude of each eigenvector is positive. Eigenvectors of equal eigenvalues have no "
    "gradient.",
)
register_op(
    "_eigenvalue_gaps",
    infer_shape=_gaps_shapes,
    gradient=_gaps_gradient,
    flops="made for the gradient of syevd",
    not_derivative="defined for ascending numbers",
    doc="1 / (λ_i - λ_j) of ascending numbers below the diagonal, 0 elsewhere; never infinite.",
)
