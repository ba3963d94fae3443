"""Diagonals and triangles of matrices: extractdiag, makediag, extracttrian, maketrian, sumlogdiag."""

from __future__ import annotations

import math

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, first_type, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ir.types import Shape
from symjax_nnvm.ops.linalg.shapes import batch_of, batch_shape, of_one_rank, square_shapes

# -- one triangle ----------------------------------------------------------------------------------------------------


class TriangleParams(Params):
    lower: bool = param(True, doc="keep what is on and below the diagonal; else what is on and above")
    offset: int = param(0, doc="the diagonal; positive: above the main one")


def _triangle_shapes(p: TriangleParams, ins: Shapes, outs: Shapes):
    """data (b…, m, n) ↔ (b…, m, n)."""
    return [outs[0]], [ins[0]]


register_op(
    "_triangle",
    params=TriangleParams,
    infer_shape=_triangle_shapes,
    gradient=lambda node, ograds: [apply("_triangle", ograds[0], **vars(node.attrs.parsed))],
    inplace=((0, 0),),
    flops=0,
    doc="Matrices with zeros on one side of a diagonal.",
)

# -- diagonals -------------------------------------------------------------------------------------------------------


class MatrixDiagonalParams(Params):
    offset: int = param(0, doc="the diagonal; positive: above the main one, negative: below")


def _shortened(n: int | None, offset: int) -> int | None:
    """Length of a diagonal of an n × n matrix. Raises ParamError when the matrix has no such diagonal."""
    if n is None:
        return None
    if offset and not is_at_most(abs(offset) + 1, n):
        raise ParamError("The matrix has no such diagonal", param="offset", expected=f"|offset| < {n}", got=offset)
    return n - abs(offset)


def _lengthened(length: int | None, offset: int) -> int | None:
    return None if length is None else length + abs(offset)


def _diagonal_pair(
    p: MatrixDiagonalParams, matrix: Shape | None, vector: Shape | None
) -> tuple[Shape | None, Shape | None]:
    """(b…, n, n) and its diagonal (b…, n - |offset|), each completed from the other."""
    if matrix is not None:
        matrix = (of_one_rank(matrix) or [matrix])[0]
        n, batch = known(*matrix[-2:]), matrix[:-2]
    elif vector is not None:
        n, batch = None, (of_one_rank(vector, least=1) or [vector])[0][:-1]
    else:
        return matrix, vector
    if vector is not None and len(vector) == len(batch) + 1:
        n = known(n, _lengthened(vector[-1], p.offset))
        batch = tuple(known(a, b) for a, b in zip(batch, vector[:-1], strict=True))
    return (*batch, n, n), (*batch, _shortened(n, p.offset))


def _extractdiag_shapes(p: MatrixDiagonalParams, ins: Shapes, outs: Shapes):
    """A (b…, n, n) ↔ (b…, n - |offset|)."""
    matrix, vector = _diagonal_pair(p, ins[0], outs[0])
    return [matrix], [vector]


def _makediag_shapes(p: MatrixDiagonalParams, ins: Shapes, outs: Shapes):
    """A (b…, n) ↔ (b…, n + |offset|, n + |offset|)."""
    matrix, vector = _diagonal_pair(p, outs[0], ins[0])
    return [vector], [matrix]


# -- packed triangles ------------------------------------------------------------------------------------------------


class PackedParams(Params):
    offset: int = param(0, doc="the triangle's diagonal; positive: above the main one, negative: below")
    lower: bool = param(True, doc="the lower triangle; only asked when offset = 0: other triangles end at a corner")


def is_lower(p: PackedParams) -> bool:
    """Whether the triangle is the one below its diagonal."""
    return p.offset < 0 or (p.offset == 0 and p.lower)


def _packed_length(n: int | None, offset: int) -> int | None:
    """Elements of a triangle of an n × n matrix."""
    side = _shortened(n, offset)
    return None if side is None else side * (side + 1) // 2


def _unpacked_side(length: int | None, offset: int) -> int | None:
    """The side of the matrix whose triangle has this number of elements. Raises InferenceError when there is none."""
    if length is None:
        return None
    side = (math.isqrt(8 * length + 1) - 1) // 2
    if side * (side + 1) // 2 != length:
        expected = "n (n + 1) / 2 for some n: 1, 3, 6, 10, …"
        raise InferenceError("No triangle has so many elements", expected=expected, got=length)
    return side + abs(offset)


def _packed_pair(p: PackedParams, matrix: Shape | None, vector: Shape | None) -> tuple[Shape | None, Shape | None]:
    """(b…, n, n) and its packed triangle (b…, t), each completed from the other."""
    shapes = of_one_rank(matrix, None if vector is None else (*vector, None))
    if shapes is None:
        return matrix, vector
    whole, packed = shapes
    batch = batch_of(whole, packed)
    length = vector[-1] if vector is not None and len(vector) == len(whole) - 1 else None
    n = known(*whole[-2:], _unpacked_side(length, p.offset))
    return (*batch, n, n), (*batch, _packed_length(n, p.offset))


def _extracttrian_shapes(p: PackedParams, ins: Shapes, outs: Shapes):
    """A (b…, n, n) ↔ (b…, t): t = s (s + 1) / 2 elements of a triangle of side s = n - |offset|."""
    matrix, vector = _packed_pair(p, ins[0], outs[0])
    return [matrix], [vector]


def _maketrian_shapes(p: PackedParams, ins: Shapes, outs: Shapes):
    """A (b…, t) ↔ (b…, n, n)."""
    matrix, vector = _packed_pair(p, outs[0], ins[0])
    return [vector], [matrix]


for _name, _inverse, _params, _shapes, _doc in (
    (
        "extractdiag",
        "makediag",
        MatrixDiagonalParams,
        _extractdiag_shapes,
        "A diagonal of each square matrix, as a vector.",
    ),
    (
        "makediag",
        "extractdiag",
        MatrixDiagonalParams,
        _makediag_shapes,
        "Square matrices of zeros but for one diagonal.",
    ),
    (
        "extracttrian",
        "maketrian",
        PackedParams,
        _extracttrian_shapes,
        "A triangle of each square matrix as a vector: a lower one row after row, an upper one column after column.",
    ),
    (
        "maketrian",
        "extracttrian",
        PackedParams,
        _maketrian_shapes,
        "Square matrices of zeros but for one triangle, given as linalg_extracttrian gives it.",
    ),
):
    register_op(
        f"_linalg_{_name}",
        aliases=(f"linalg_{_name}",),
        params=_params,
        inputs=("A",),
        infer_shape=_shapes,
        infer_type=float_type,
        gradient=lambda node, ograds, inverse=f"_linalg_{_inverse}": [
            apply(inverse, ograds[0], **vars(node.attrs.parsed))
        ],
        flops=0,
        doc=_doc,
    )

# -- one number for each matrix --------------------------------------------------------------------------------------


def number_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """A (b…, n, n) → (b…), or (1,) for a single matrix."""
    (a,), _ = square_shapes(p, ins, [])
    return [a], [outs[0] if a is None else batch_shape(a[:-2])]


def _fill_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (b…) or (1,), like (b…, m, n) → (b…, m, n)."""
    shapes = of_one_rank(ins[1], outs[0])
    if shapes is None:
        return ins, outs
    like, out = shapes
    whole = tuple(known(a, b) for a, b in zip(like, out, strict=True))
    return [batch_shape(whole[:-2]), whole], [whole]


register_op(
    "_matrix_fill",
    inputs=("data", "like"),
    infer_shape=_fill_shapes,
    infer_type=first_type,
    FIgnoreInputs=lambda attrs: (1,),
    flops=0,
    doc="One number for each matrix, repeated over the matrices of `like`.",
)
linear(
    "_matrix_fill",
    of="data",
    adjoint="_backward_matrix_fill",
    inputs=("ograd",),
    like="like",
    doc="The gradient of _matrix_fill: the sum of the elements of each matrix.",
)


def _sumlogdiag_gradient(node: Node, ograds: Entries):
    """dA_ii = dY / A_ii."""
    (a,) = node.inputs
    inverses = apply("_linalg_makediag", apply("reciprocal", apply("_linalg_extractdiag", a)))
    return [apply("elemwise_mul", apply("_matrix_fill", ograds[0], a), inverses)]


register_op(
    "_linalg_sumlogdiag",
    aliases=("linalg_sumlogdiag",),
    inputs=("A",),
    infer_shape=number_shapes,
    infer_type=float_type,
    gradient=_sumlogdiag_gradient,
    flops="n logarithms of each n² elements",
    doc="Sum of the logarithms of the diagonal of each square matrix: half the log-determinant of L Lᵀ for a Cholesky "
    "factor L.",
)
