"""Functions of two arrays whose shapes are broadcast against each other; and `where`."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, register_op, same_shape, same_type
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import MOVES
from symjax_nnvm.ir.types import Dim, format_shape
from symjax_nnvm.ops.elementwise.binary import FUNCTIONS, Formula, type_rule


def broadcast_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """lhs (…, n, 1), rhs (m,) ↔ (…, n, m): aligned at the last axis, dimensions equal or 1; missing ones count as 1."""
    lhs, rhs = ins
    if lhs is None or rhs is None:
        return ins, outs
    ndim = max(len(lhs), len(rhs))
    out = outs[0] if outs[0] is not None and len(outs[0]) == ndim else (None,) * ndim
    left, right = ((1,) * (ndim - len(shape)) + tuple(shape) for shape in (lhs, rhs))
    if any(a != b and None not in (a, b) and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
        raise InferenceError(
            f"operands could not be broadcast together with shapes {format_shape(lhs)} {format_shape(rhs)}",
            expected="dimensions that are equal or 1, aligned at the last axis",
        )
    result = tuple(map(_broadcast_dim, left, right, out))
    left = tuple(map(_operand_dim, left, right, result))
    right = tuple(map(_operand_dim, right, left, result))
    return [left[ndim - len(lhs) :], right[ndim - len(rhs) :]], [result]


def _broadcast_dim(left: Dim, right: Dim, out: Dim) -> Dim:
    """A dimension of the result: that of the operand which is not 1."""
    if left not in (1, None):
        return left
    if right not in (1, None):
        return right
    return 1 if left == right == 1 else out


def _operand_dim(dim: Dim, other: Dim, out: Dim) -> Dim:
    """A dimension of an operand, from the other's and the result's; it stays open where it may be 1 or not."""
    if dim is not None or out is None:
        return dim
    return out if out == 1 or other == 1 else None


def _gradient_of(formula: Formula | None):
    """The element-by-element formula in broadcasting operators, summed over the axes along which each side repeats."""
    if formula is None:
        return lambda node, ograds: [None, None]

    def gradient(node: Node, ograds: Entries) -> Entries:
        lhs, rhs = node.inputs
        of_lhs, of_rhs = formula(broadcasting, ograds[0], lhs, rhs, NodeEntry(node, 0, 0))
        return [apply("_sum_like", of_lhs, lhs), apply("_sum_like", of_rhs, rhs)]

    return gradient


def broadcasting(name: str, left: NodeEntry, right: NodeEntry) -> NodeEntry:
    """Apply the broadcasting operator of a function."""
    return apply(f"broadcast_{name}", left, right)


for _function in FUNCTIONS:
    register_op(
        f"broadcast_{_function.name}",
        inputs=("lhs", "rhs"),
        aliases=_function.broadcast_aliases,
        infer_shape=broadcast_shapes,
        infer_type=type_rule(_function),
        gradient=_gradient_of(_function.gradient),
        inplace=((0, 0), (1, 0)),
        flops=1,
        broadcasts=True,
        storage=_function.broadcast_storage,
        doc=f"{_function.doc.rstrip('.')}, with broadcasting.",
        **_function.card,
    )

# -- where -----------------------------------------------------------------------------------------------------------


def _where_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """condition (n, …) or (n,), x (n, …), y (n, …) → (n, …)."""
    condition = ins[0]
    (x, y), (out,) = same_shape(p, ins[1:], outs)
    if condition is None or x is None:
        return [condition, x, y], [out]
    if len(condition) == 1 < len(x):
        rows = known(condition[0], x[0])
        shape = (rows, *x[1:])
        return [(rows,), shape, shape], [shape]
    _, (shape,) = same_shape(p, (condition, x), [None])
    return [shape, shape, shape], [shape]


def _where_types(p: NoParams, ins: Types, outs: Types):
    """A condition of any dtype; x, y and the result of one."""
    (x, y), out = same_type(p, ins[1:], outs)
    return [ins[0], x, y], out


def _where_gradient(node: Node, ograds: Entries):
    """dX = dZ where the condition holds, dY = dZ elsewhere."""
    condition, (dz,) = node.inputs[0], ograds
    zero = apply("zeros_like", dz)
    return [None, apply("where", condition, dz, zero), apply("where", condition, zero, dz)]


register_op(
    "where",
    inputs=("condition", "x", "y"),
    aliases=("_sparse_where",),
    infer_shape=_where_shapes,
    infer_type=_where_types,
    gradient=_where_gradient,
    **MOVES,
    doc="x where the condition is not 0, else y; a condition of one axis chooses whole rows.",
)
