"""norm of MXNet's NumPy dialect: of vectors, and of matrices by their singular values."""

from __future__ import annotations

import math
from typing import ClassVar

from symjax_nnvm.errors import ParamError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Axes, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.axes import normal_axes
from symjax_nnvm.ir.rules.costs import per_input
from symjax_nnvm.ops.elementwise.binary import div, mul
from symjax_nnvm.ops.linalg.shapes import solver_type
from symjax_nnvm.ops.reduce.reduction import reduce_shapes, reduced_axes, spread

FLAT, BY_ORD, SPECTRAL, FROBENIUS, NUCLEAR = -2, -1, 0, 1, 2
"""Values of `flag`."""


class MatrixNormParams(Params):
    numpy: ClassVar[bool] = True
    ord: float = param(
        2.0,
        doc="p of a vector's norm; of matrices 2 and -2: the largest and smallest singular value, 1 and -1: sum of a "
        "column, inf and -inf: sum of a row",
    )
    axis: Axes | None = param(None, doc="one axis of vectors or two of matrices; None: all")
    keepdims: bool = param(False, doc="keep the reduced axes, with length 1")
    flag: int = param(
        BY_ORD,
        ge=FLAT,
        le=NUCLEAR,
        doc="-2: of all elements; -1: as ord says; 0: of singular values; 1: root of the sum of squares; 2: their sum",
    )


def is_of_matrices(p: MatrixNormParams, ndim: int) -> bool:
    """Whether it is a norm of matrices, by sums or by singular values. Raises ParamError for an order that there is no
    norm of."""
    axes = reduced_axes(p, ndim)
    is_matrix = p.flag in (SPECTRAL, NUCLEAR) or (p.flag == BY_ORD and len(axes) == 2)
    if is_matrix and (len(axes) != 2 or (p.flag != NUCLEAR and abs(p.ord) not in (1, 2, math.inf))):
        raise ParamError(
            "Invalid norm order for inputs",
            param="ord",
            expected="1, 2, inf or their negatives for matrices, of two axes",
            got=f"{p.ord:g} over {len(axes)} axes",
        )
    if (p.flag == BY_ORD and not is_matrix and len(axes) != 1) or (p.flag == FROBENIUS and len(axes) > 2):
        expected = "one axis, or two"
        raise ParamError("Invalid norm order for inputs", param="ord", expected=expected, got=f"{p.ord:g}")
    return is_matrix


def summed_axes(p: MatrixNormParams, ndim: int) -> tuple[int, ...] | None:
    """The axes over which absolute values are summed before the largest or smallest sum is taken, none of vectors; None
    where the norm is another one."""
    of_matrices = is_of_matrices(p, ndim)
    if p.flag not in (BY_ORD, SPECTRAL) or not (math.isinf(p.ord) or (of_matrices and abs(p.ord) == 1)):
        return None
    return (normal_axes(p.axis or (0, 1), ndim)[int(math.isinf(p.ord))],) if of_matrices else ()


def _norm_shapes(p: MatrixNormParams, ins: Shapes, outs: Shapes):
    """data (…, d, …) → (…, …)."""
    if ins[0] is not None:
        is_of_matrices(p, len(ins[0]))
    return reduce_shapes(p, ins, outs)


def _norm_type(p: MatrixNormParams, ins: Types, outs: Types):
    return (solver_type if p.flag in (SPECTRAL, NUCLEAR) else float_type)(p, ins, outs)


def _norm_gradient(node: Node, ograds: Entries) -> Entries:
    """dX = dY sign(X) (|X| / Y)^(p - 1); of singular values dY U V, of the ones that count."""
    p: MatrixNormParams = node.attrs.parsed
    data, dy = node.inputs[0], spread(ograds[0], node)
    if p.flag in (SPECTRAL, NUCLEAR) or (
        p.flag == BY_ORD and (p.axis is None or len(p.axis) == 2 or math.isinf(p.ord))
    ):
        return [mul(dy, apply("_norm_direction", data, **vars(p)))]
    ratio = div(data, spread(NodeEntry(node, 0, 0), node))
    if p.flag != BY_ORD or p.ord == 2:
        return [mul(dy, ratio)]
    sign = apply("sign", data)
    if p.ord in (0, 1):
        return [mul(dy, apply("_mul_scalar", sign, scalar=p.ord))]
    return [mul(dy, mul(sign, apply("_power_scalar", apply("abs", ratio), scalar=p.ord - 1)))]


register_op(
    "_npi_norm",
    params=MatrixNormParams,
    inputs=("data",),
    infer_shape=_norm_shapes,
    infer_type=_norm_type,
    gradient=_norm_gradient,
    flops=per_input(3),
    deviation=Deviation(
        "the gradient of a largest or smallest singular value, or sum, is right; MXNet's is not", "training"
    ),
    doc="The norm of vectors, (Σ |x|ᵖ)^(1/p), or of matrices, by their singular values. Those of matrices have no "
    "second gradient; the first one is right, unlike MXNet's of one singular value.",
    FNumFileOutputs=lambda attrs: 4,  # MXNet hides the parts of a decomposition behind it
)
register_op(
    "_norm_direction",
    params=MatrixNormParams,
    inputs=("data",),
    infer_shape=same_shape,
    infer_type=float_type,
    flops="the work is a decomposition",
    own=True,
    TNoGradient="it is the gradient of a norm of matrices (np.linalg.norm), which has no second one; ord='fro' has, "
    "and so have the singular values of np.linalg.svd",
    doc="The gradient of a norm whose kind the number of axes decides: of matrices U V of singular vectors "
    "that count, or signs of the elements that count.",
)
