"""Matrix products: dot, batch_dot, linalg_gemm2, khatri_rao."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, Literal, Protocol

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import MAX_COUNT, Axis, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op
from symjax_nnvm.ir.rules.axes import known, normal_axis, replaced, size_of, solve_sizes
from symjax_nnvm.ir.rules.costs import Flops, Sizes
from symjax_nnvm.ir.rules.linear import Adjoint, multilinear
from symjax_nnvm.ir.rules.storage import Storage
from symjax_nnvm.ir.types import Shape, format_shape

StorageType = Literal["csr", "default", "row_sparse"]


class Transposed(Protocol):
    """Which operands of a product are transposed."""

    @property
    def transpose_a(self) -> bool: ...
    @property
    def transpose_b(self) -> bool: ...


class DotParams(Params):
    transpose_a: bool = param(False, doc="take the first axis of lhs instead of the last (batch_dot: swap its two)")
    transpose_b: bool = param(False, doc="take the last axis of rhs instead of the first (batch_dot: swap its two)")
    forward_stype: StorageType | None = param(None, doc="storage type that the result is shown with; all is dense")


class DotGradientParams(Params):
    transpose_a: bool = False
    transpose_b: bool = False
    operand: Literal["lhs", "rhs"] = param(doc="the operand whose gradient it is")


def contracted_axes(p: Transposed, lhs_ndim: int, rhs_ndim: int) -> tuple[int, int]:
    """The axis of lhs and the axis of rhs that dot sums over."""
    return (0 if p.transpose_a else lhs_ndim - 1), (rhs_ndim - 1 if p.transpose_b else 0)


def _dot_shapes(p: Transposed, ins: Shapes, outs: Shapes):
    """lhs (a…, k), rhs (k, b…) → (a…, b…); (k, a…) with transpose_a, (b…, k) with transpose_b; two vectors → (1,)."""
    lhs, rhs, out = ins[0], ins[1], outs[0]
    if lhs is None or rhs is None:
        return ins, outs
    if not lhs or not rhs:
        shown = f"{format_shape(lhs)} and {format_shape(rhs)}"
        raise InferenceError("A product needs operands with axes", expected="at least one axis", got=shown)
    i, j = contracted_axes(p, len(lhs), len(rhs))
    k = known(lhs[i], rhs[j])
    if len(lhs) == len(rhs) == 1:
        if p.transpose_a or p.transpose_b:
            raise InferenceError("Cannot transpose vectors", param="transpose_a, transpose_b", expected=False, got=True)
        return [(k,), (k,)], [(1,)]
    rows, columns = replaced(lhs, i), replaced(rhs, j)
    if out is not None and len(out) == len(rows) + len(columns):
        merged = [known(dim, size) for dim, size in zip((*rows, *columns), out, strict=True)]
        rows, columns = tuple(merged[: len(rows)]), tuple(merged[len(rows) :])
    return [_inserted(rows, i, k), _inserted(columns, j, k)], [(*rows, *columns)]


def _inserted(shape: Shape, axis: int, dim: int | None) -> Shape:
    return (*shape[:axis], dim, *shape[axis:])


def _dot_storage(p: DotParams, ins: Storage) -> str:
    """Infer storage types as MXNet does on a CPU, where a dense array times a csr matrix is csr."""
    if p.forward_stype is not None:
        return p.forward_stype
    if ins[0] == "csr" and ins[1] != "csr":
        return "row_sparse" if p.transpose_a and not p.transpose_b else "default"
    return "csr" if tuple(ins) == ("default", "csr") and not p.transpose_a else "default"


def _dot_flops(p: DotParams, ins: Sizes, outs: Sizes) -> Flops:
    """lhs and rhs share one axis, of which every other element of lhs sees all of rhs."""
    shared = ins[0][0 if p.transpose_a else -1]
    return Flops(prod(ins[0]) * prod(ins[1]) // max(shared, 1))


register_op(
    "dot",
    aliases=("_sparse_dot",),
    params=DotParams,
    inputs=("lhs", "rhs"),
    infer_shape=_dot_shapes,
    storage=_dot_storage,
    FSparseGradient=lambda attrs, ins: 1 if ins[0] == "csr" and not attrs.parsed.transpose_a else None,
    FAsksSparse=lambda attrs: attrs.parsed.forward_stype not in (None, "default"),
    flops=_dot_flops,
    precision="half",
    doc="Sum over the last axis of lhs and the first axis of rhs: the matrix product of matrices.",
)


multilinear(
    "dot",
    of=Adjoint(
        "_backward_dot",
        lambda operand, inputs: ("ograd", *(name for name in inputs if name != operand), operand),
        place="operand",
    ),
    params=DotGradientParams,
)


class Gemm2Params(Params):
    transpose_a: bool = param(False, doc="transpose the matrices of A")
    transpose_b: bool = param(False, doc="transpose the matrices of B")
    alpha: float = param(1.0, doc="factor of the product")
    axis: Axis = param(-2, doc="axis of the matrices' rows; their columns are the last axis")


def product_shapes(p: Transposed, ins: Shapes, outs: Shapes, rows: int, least: int):
    """lhs (b…, m, k), rhs (b…, k, n) → (b…, m, n), the last two exchanged in a transposed operand; rows: the first of
    the two axes."""
    shapes = [*ins, *outs]
    ndim = next((len(shape) for shape in shapes if shape is not None), None)
    if ndim is None:
        return ins, outs
    if ndim < least:
        raise InferenceError("Too few axes for a product of matrices", expected=f"at least {least}", got=ndim)
    shapes = [(None,) * ndim if shape is None or len(shape) != ndim else shape for shape in shapes]
    row = normal_axis(rows, ndim)
    if row == ndim - 1:
        raise InferenceError("Rows and columns are the same axis", param="axis", expected="not the last", got=rows)
    batch = [known(*dims) for dims in zip(*shapes, strict=True)]
    pairs = [(shape[row], shape[-1]) for shape in shapes]
    (m, k), (k2, n) = pairs[0][:: -1 if p.transpose_a else 1], pairs[1][:: -1 if p.transpose_b else 1]
    m, k, n = known(m, pairs[2][0]), known(k, k2), known(n, pairs[2][1])
    inferred = [(m, k)[:: -1 if p.transpose_a else 1], (k, n)[:: -1 if p.transpose_b else 1], (m, n)]
    lhs, rhs, out = ((*replaced(tuple(batch[:-1]), row, a), b) for a, b in inferred)
    return [lhs, rhs], [out]


def _product_gradient(product: Callable[..., NodeEntry], node: Node, dy: NodeEntry):
    """dA = dY op(B)ᵀ, dB = op(A)ᵀ dY, each transposed once more where the operand is."""
    p: Transposed = node.attrs.parsed
    a, b = node.inputs
    left, right = (b, dy) if p.transpose_a else (dy, b)
    flags = (p.transpose_b, True) if p.transpose_a else (False, not p.transpose_b)
    da = product(left, right, transpose_a=flags[0], transpose_b=flags[1])
    left, right = (dy, a) if p.transpose_b else (a, dy)
    flags = (True, p.transpose_a) if p.transpose_b else (not p.transpose_a, False)
    return [da, product(left, right, transpose_a=flags[0], transpose_b=flags[1])]


def _gemm2_gradient(node: Node, ograds: Entries):
    """The gradient of a matrix product, with the factor alpha."""
    p: Gemm2Params = node.attrs.parsed
    return _product_gradient(partial(apply, "_linalg_gemm2", alpha=p.alpha, axis=p.axis), node, ograds[0])


def gemm_flops(p: Any, ins: Sizes, outs: Sizes) -> Flops:
    """One product for each element; a parameter `axis` is the axis of the rows; C is added."""
    shared = ins[0][getattr(p, "axis", -2) if p.transpose_a else -1]
    return Flops(prod(outs[0]) * shared, prod(outs[0]) if len(ins) == 3 else 0)


register_op(
    "batch_dot",
    aliases=("_npx_batch_dot",),
    params=DotParams,
    inputs=("lhs", "rhs"),
    infer_shape=lambda p, ins, outs: product_shapes(p, ins, outs, -2, 3),
    gradient=lambda node, ograds: _product_gradient(partial(apply, "batch_dot"), node, ograds[0]),
    flops=gemm_flops,
    precision="half",
    doc="Products of the matrices in the last two axes, one for each place in the axes before them.",
)


register_op(
    "_linalg_gemm2",
    aliases=("linalg_gemm2",),
    params=Gemm2Params,
    inputs=("A", "B"),
    infer_shape=lambda p, ins, outs: product_shapes(p, ins, outs, p.axis, 2),
    infer_type=float_type,
    gradient=_gemm2_gradient,
    flops=gemm_flops,
    doc="alpha A B for matrices or batches of them.",
)


class KhatriRaoParams(Params):
    num_args: int = param(ge=1, le=MAX_COUNT, doc="number of matrices")


class KhatriRaoGradientParams(Params):
    num_args: int = param(ge=2, le=MAX_COUNT, doc="number of inputs: the head gradient and the matrices")
    number: int = param(ge=0, doc="which matrix's gradient it is")

    def check(self) -> str | None:
        """Whether there is such a matrix."""
        matrices = self.num_args - 1
        return None if self.number < matrices else f"Parameter number={self.number} is not one of {matrices} matrices"


def _khatri_rao_shapes(p: KhatriRaoParams, ins: Shapes, outs: Shapes):
    """matrices (r0, k), (r1, k), … → (r0 r1 …, k)."""
    columns = known(*(shape[-1] for shape in (*ins, *outs) if shape))
    rows = [shape[0] if shape else None for shape in ins]
    if outs[0]:
        rows = list(solve_sizes(rows, outs[0][:1])[0])
    return [(row, columns) for row in rows], [(size_of(rows), columns)]


register_op(
    "khatri_rao",
    params=KhatriRaoParams,
    variadic="num_args",
    infer_shape=_khatri_rao_shapes,
    flops="a product for each column of every matrix",
    doc="Column-wise Kronecker product of matrices with equal numbers of columns. Unlike in MXNet it has a gradient.",
)


multilinear("khatri_rao", of=Adjoint("_backward_khatri_rao", place="number"), params=KhatriRaoGradientParams)
