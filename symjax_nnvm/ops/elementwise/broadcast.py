"""Functions of two arrays whose shapes are broadcast against each other; and `where`."""

from __future__ import annotations

from functools import partial

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, check_number, register_op, same_shape, same_type
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


class WhereScalarParams(Params):
    scalar: float = param(0.0, doc="the number, in the dtype of the array")


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


def _where_types(p: Params, ins: Types, outs: Types):
    """A condition of any dtype; the choices and the result of one."""
    choices, out = same_type(p, ins[1:], outs)
    if isinstance(p, WhereScalarParams):
        check_number("scalar", p.scalar, out[0])
    return [ins[0], *choices], out


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

# -- where as NumPy has it -------------------------------------------------------------------------------------------


class WhereScalar2Params(Params):
    x: float = param(0.0, doc="the number where the condition holds")
    y: float = param(0.0, doc="the number elsewhere")


def _chosen_shapes(p: Params, ins: Shapes, outs: Shapes):
    """The condition's shape and those of the choices, broadcast against each other."""
    result = ins[0]
    for choice in ins[1:]:
        _, (result,) = broadcast_shapes(NoParams(), [result, choice], [None])
    return ins, [result]


_CHOICES: dict[str, str] = {"x": "_npi_where_rscalar", "y": "_npi_where_lscalar"}
"""A choice that is an array → the operator whose other choice, the left or the right one, is a number."""


def _choice_gradient(names: tuple[str, ...]):
    def gradient(node: Node, ograds: Entries) -> list[NodeEntry | None]:
        """dZ where an array was chosen, zero elsewhere, summed to the array's shape."""
        condition, *choices = node.inputs
        chosen = (apply(_CHOICES[name], condition, ograds[0]) for name in names)
        return [None, *map(partial(apply, "_sum_like"), chosen, choices)]

    return gradient


_WHERE_DEVIATION = Deviation(
    "the gradient is that of the array where it was chosen; MXNet's is what the number would have", affects="training"
)

for _name, _choices, _params, _types, _deviation, _doc in (
    (
        "_npi_where",
        ("x", "y"),
        NoParams,
        _where_types,
        (),
        "x where the condition is not 0, else y; all are broadcast.",
    ),
    (
        "_npi_where_lscalar",
        ("y",),
        WhereScalarParams,
        _where_types,
        _WHERE_DEVIATION,
        "A number where the condition is not 0, else the array.",
    ),
    (
        "_npi_where_rscalar",
        ("x",),
        WhereScalarParams,
        _where_types,
        _WHERE_DEVIATION,
        "The array where the condition is not 0, else a number.",
    ),
    (
        "_npi_where_scalar2",
        (),
        WhereScalar2Params,
        lambda p, ins, outs: (ins, ["float32"]),
        (),
        "A number where the condition is not 0, else another.",
    ),
):
    register_op(
        _name,
        params=_params,
        # MXNet calls the one array of the left number x, that of the right number y.
        inputs=("condition", *({"x": "y", "y": "x"}[name] if len(_choices) == 1 else name for name in _choices)),
        infer_shape=_chosen_shapes,
        infer_type=_types,
        gradient=_choice_gradient(_choices),
        **MOVES,
        broadcasts=True,
        deviation=_deviation,
        doc=_doc,
    )
