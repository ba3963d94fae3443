"""Matrix products of linear algebra: linalg_gemm, linalg_syrk, linalg_trmm (linalg_gemm2 is in `dot.py`)."""

from __future__ import annotations

from symjax_nnvm.ir.attributes import FGradient
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ops.linalg.dot import Gemm2Params, gemm_flops, product_shapes
from symjax_nnvm.ops.linalg.factorization import square_flops
from symjax_nnvm.ops.linalg.shapes import batch_of, of_one_rank

# -- gemm ------------------------------------------------------------------------------------------------------------


class GemmParams(Params):
    transpose_a: bool = param(False, doc="transpose the matrices of A")
    transpose_b: bool = param(False, doc="transpose the matrices of B")
    alpha: float = param(1.0, doc="factor of the product")
    beta: float = param(1.0, doc="factor of C")
    axis: Axis = param(-2, doc="axis of the matrices' rows; their columns are the last axis")


def _gemm_shapes(p: GemmParams, ins: Shapes, outs: Shapes):
    """A (b…, m, k), B (b…, k, n), C (b…, m, n) → (b…, m, n)."""
    a, b, c = ins
    _, (sum_shape,) = same_shape(p, [c], outs)
    inputs, (out,) = product_shapes(p, [a, b], [sum_shape], p.axis, 2)
    return [*inputs, out], [out]


def _gemm_gradient(node: Node, ograds: Entries):
    """dA and dB as of linalg_gemm2, dC = β dY."""
    p: GemmParams = node.attrs.parsed
    a, b, _ = node.inputs
    flags = {name: getattr(p, name) for name in Gemm2Params.__dataclass_fields__}
    product = apply("_linalg_gemm2", a, b, **flags).node
    of_product = FGradient[product.op](product, ograds)
    return [*of_product, ograds[0] if p.beta == 1 else apply("_mul_scalar", ograds[0], scalar=p.beta)]


register_op(
    "_linalg_gemm",
    aliases=("linalg_gemm",),
    params=GemmParams,
    inputs=("A", "B", "C"),
    infer_shape=_gemm_shapes,
    infer_type=float_type,
    gradient=_gemm_gradient,
    inplace=((2, 0),),
    flops=gemm_flops,
    doc="α A B + β C for matrices or batches of them (BLAS gemm).",
)

# -- syrk ------------------------------------------------------------------------------------------------------------


class SyrkParams(Params):
    transpose: bool = param(False, doc="Aᵀ A instead of A Aᵀ")
    alpha: float = param(1.0, doc="factor of the product")


def _syrk_shapes(p: SyrkParams, ins: Shapes, outs: Shapes):
    """A (b…, m, k) → (b…, m, m); (b…, k, k) when transposed."""
    shapes = of_one_rank(ins[0], outs[0])
    if shapes is None:
        return ins, outs
    a, out = shapes
    batch, free = batch_of(a, out), -1 if p.transpose else -2
    n = known(a[free], out[-1], out[-2])
    rows, columns = (a[-2], n) if p.transpose else (n, a[-1])
    return [(*batch, rows, columns)], [(*batch, n, n)]


def _syrk_gradient(node: Node, ograds: Entries):
    """dA = α (dY + dYᵀ) A; A (dY + dYᵀ) when transposed."""
    p: SyrkParams = node.attrs.parsed
    (a,), (dy,) = node.inputs, ograds
    operands = (a, dy) if p.transpose else (dy, a)
    straight = apply("_linalg_gemm2", *operands, alpha=p.alpha)
    turned = apply("_linalg_gemm2", *operands, alpha=p.alpha, transpose_a=not p.transpose, transpose_b=p.transpose)
    return [apply("elemwise_add", straight, turned)]


register_op(
    "_linalg_syrk",
    aliases=("linalg_syrk",),
    params=SyrkParams,
    inputs=("A",),
    infer_shape=_syrk_shapes,
    infer_type=float_type,
    gradient=_syrk_gradient,
    flops=square_flops(1),
    doc="α A Aᵀ for matrices or batches of them (BLAS syrk).",
)

# -- trmm ------------------------------------------------------------------------------------------------------------


class TriangularParams(Params):
    transpose: bool = param(False, doc="use Aᵀ instead of A")
    rightside: bool = param(False, doc="A is to the right of B")
    lower: bool = param(True, doc="A is the lower triangle of the matrix given; else the upper one")
    alpha: float = param(1.0, doc="factor of the result")


def triangular_shapes(p: TriangularParams, ins: Shapes, outs: Shapes):
    """A (b…, n, n), B (b…, n, m) → (b…, n, m); (b…, m, n) with A on the right."""
    shapes = of_one_rank(*ins, outs[0])
    if shapes is None:
        return ins, outs
    a, b, out = shapes
    batch = batch_of(a, b, out)
    rows, columns = known(b[-2], out[-2]), known(b[-1], out[-1])
    n = known(a[-1], a[-2], columns if p.rightside else rows)
    whole = (*batch, rows, n) if p.rightside else (*batch, n, columns)
    return [(*batch, n, n), whole], [whole]


def of_triangle(p: TriangularParams, dy: NodeEntry, b: NodeEntry, alpha: float) -> NodeEntry:
    """Gradient of A in <dY, α op(A) B>, or in <dY, α B op(A)>: the triangle of an outer product."""
    left, right = (b, dy) if p.rightside != p.transpose else (dy, b)
    whole = apply("_linalg_gemm2", left, right, alpha=alpha, transpose_a=p.rightside, transpose_b=not p.rightside)
    return apply("_triangle", whole, lower=p.lower)


def _trmm_gradient(node: Node, ograds: Entries):
    """dA = triangle of α dY Bᵀ, dB = α Aᵀ dY; with the sides and transposes of the parameters."""
    p: TriangularParams = node.attrs.parsed
    (a, b), (dy,) = node.inputs, ograds
    db = apply("_linalg_trmm", a, dy, transpose=not p.transpose, rightside=p.rightside, lower=p.lower, alpha=p.alpha)
    return [of_triangle(p, dy, b, p.alpha), db]


register_op(
    "_linalg_trmm",
    aliases=("linalg_trmm",),
    params=TriangularParams,
    inputs=("A", "B"),
    infer_shape=triangular_shapes,
    infer_type=float_type,
    gradient=_trmm_gradient,
    inplace=((1, 0),),
    flops=square_flops(1),
    doc="α A B, or α B A, with a triangular matrix A, for matrices or batches of them (BLAS trmm). Of A one triangle "
    "is read, and its gradient has that one only.",
)
