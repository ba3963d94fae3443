"""Solving and what comes with it: linalg_trsm, linalg_inverse, linalg_det, linalg_slogdet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, register_op
from symjax_nnvm.ops.linalg.factorization import square_flops
from symjax_nnvm.ops.linalg.gemm import TriangularParams, of_triangle, triangular_shapes
from symjax_nnvm.ops.linalg.shapes import batch_shape, solver_type, square_shapes, transposed

# -- trsm ------------------------------------------------------------------------------------------------------------


def _trsm_gradient(node: Node, ograds: Entries):
    """The gradient, with G = A⁻ᵀ dY: dB = α G, dA = triangle of -G Xᵀ; with the sides and transposes of the
    parameters."""
    p: TriangularParams = node.attrs.parsed
    a, x = node.inputs[0], NodeEntry(node, 0, 0)
    g = apply("_linalg_trsm", a, ograds[0], transpose=not p.transpose, rightside=p.rightside, lower=p.lower)
    return [of_triangle(p, g, x, -1.0), g if p.alpha == 1 else apply("_mul_scalar", g, scalar=p.alpha)]


register_op(
    "_linalg_trsm",
    aliases=("linalg_trsm",),
    params=TriangularParams,
    inputs=("A", "B"),
    infer_shape=triangular_shapes,
    infer_type=solver_type,
    gradient=_trsm_gradient,
    inplace=((1, 0),),
    flops=square_flops(1),
    doc="The X with A X = α B, or X A = α B, for a triangular matrix A, for matrices or batches of them (BLAS trsm). "
    "Only one triangle of A is read, and its gradient has only that one.",
)

# -- inverse ---------------------------------------------------------------------------------------------------------


def _inverse_gradient(node: Node, ograds: Entries):
    """dA = -Bᵀ dB Bᵀ for B = A⁻¹."""
    b = NodeEntry(node, 0, 0)
    left = apply("_linalg_gemm2", b, ograds[0], transpose_a=True, alpha=-1.0)
    return [apply("_linalg_gemm2", left, b, transpose_b=True)]


register_op(
    "_linalg_inverse",
    aliases=("_npi_inv", "linalg_inverse"),
    inputs=("A",),
    infer_shape=square_shapes,
    infer_type=solver_type,
    gradient=_inverse_gradient,
    flops=square_flops(4),
    deviation="of a singular matrix the result is not finite; MXNet stops with an error",
    doc="Inverse of each square matrix. Of a singular matrix it is not finite, where MXNet has an error.",
)

# -- determinants ----------------------------------------------------------------------------------------------------

_Fill = Callable[[NodeEntry, NodeEntry], NodeEntry]
"""(one number for each matrix, A) → the numbers, repeated over the matrices of A."""


def _numpy_det_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """A (b…, n, n) → one number for each matrix (b…), …; LU (b…, n, n), pivots (b…, n)."""
    (a, lu), _ = square_shapes(p, [ins[0], outs[-2]], [])
    if a is None:
        return ins, outs
    return [a], [*[a[:-2]] * len(outs[:-2]), lu, a[:-1]]


def _det_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """A (b…, n, n) → one number for each matrix (b…) or (1,), …; LU (b…, n, n), pivots (b…, n)."""
    ins, outs = _numpy_det_shapes(p, ins, outs)
    return ins, [batch_shape(()) if shape == () else shape for shape in outs]


def _det_types(p: NoParams, ins: Types, outs: Types):
    """One dtype for all but the pivots, which are int32."""
    inputs, outputs = solver_type(p, ins, outs[:-1])
    return inputs, [*outputs, "int32"]


def _numpy_fill(numbers: NodeEntry, a: NodeEntry) -> NodeEntry:
    """One number for each matrix (b…), repeated over the matrices of A."""
    return apply("broadcast_like", apply("expand_dims", apply("expand_dims", numbers, axis=-1), axis=-1), a)


def _regular(fill: _Fill, a: NodeEntry, singular: NodeEntry) -> NodeEntry:
    """A with the identity in place of singular matrices, whose determinant `singular` is 0."""
    identity = apply("_linalg_makediag", apply("ones_like", apply("_linalg_extractdiag", a)))
    return apply("where", fill(singular, a), a, identity)


def _times_inverse(fill: _Fill, factor: NodeEntry, a: NodeEntry, singular: NodeEntry) -> NodeEntry:
    """factor A⁻ᵀ; one factor for each matrix."""
    inverse = apply("_linalg_inverse", _regular(fill, a, singular))
    return apply("elemwise_mul", fill(factor, a), transposed(inverse))


def _det_gradient(fill: _Fill, node: Node, ograds: Entries):
    """dA = dY det(A) A⁻ᵀ (Jacobi's formula); as in MXNet 0 where det(A) is 0."""
    det = NodeEntry(node, 0, 0)
    return [_times_inverse(fill, apply("elemwise_mul", ograds[0], det), node.inputs[0], det)]


def _slogdet_gradient(fill: _Fill, node: Node, ograds: Entries):
    """dA = dY A⁻ᵀ for the logarithm; as in MXNet 0 where A is singular. The sign is constant."""
    sign = NodeEntry(node, 0, 0)
    regular = apply("square", sign)
    return [_times_inverse(fill, apply("elemwise_mul", ograds[1], regular), node.inputs[0], sign)]


for _name, _count, _gradient, _doc in (
    (
        "det",
        1,
        _det_gradient,
        "Determinant of each square matrix. Hidden outputs: the LU factors and pivots that it is computed from.",
    ),
    (
        "slogdet",
        2,
        _slogdet_gradient,
        "Sign of the determinant of each square matrix, and the logarithm of its magnitude. Hidden outputs: the LU "
        "factors and pivots that they are computed from.",
    ),
):
    _CARD: dict[str, Any] = {
        "inputs": ("A",),
        "num_outputs": _count + 2,
        "visible_outputs": _count,
        "infer_type": _det_types,
        "flops": square_flops(1),
    }
    _classic = f"_linalg_{_name}"
    register_op(
        _classic,
        aliases=(f"linalg_{_name}",),
        infer_shape=_det_shapes,
        gradient=partial(_gradient, partial(apply, "_matrix_fill")),
        doc=_doc,
        **_CARD,
    )
    register_op(
        f"_npi_{_name}",
        infer_shape=_numpy_det_shapes,
        gradient=partial(_gradient, _numpy_fill),
        twin_of=_classic,
        TFileName=_classic,
        doc=f"{_doc} Of one matrix a result has no axes. MXNet's files call it `{_classic}`.",
        **_CARD,
    )
