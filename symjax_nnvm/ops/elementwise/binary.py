"""Functions of two arrays of one shape, element by element: arithmetic, extremes, comparisons, logic; and add_n."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import MAX_COUNT, Params, param
from symjax_nnvm.ir.register import Entries, Types, register_op, same_shape, same_type
from symjax_nnvm.ir.rules.costs import Flops
from symjax_nnvm.ir.rules.quantized_form import quantized_as
from symjax_nnvm.ir.rules.storage import (
    StorageRule,
    storage_of_all,
    storage_of_product,
    storage_of_scaled,
)
from symjax_nnvm.ir.types import DType, is_float

add = partial(apply, "elemwise_add")
sub = partial(apply, "elemwise_sub")
mul = partial(apply, "elemwise_mul")
div = partial(apply, "elemwise_div")

Binary = Callable[[str, NodeEntry, NodeEntry], NodeEntry]
"""(function's name, left, right) → node: applies the element-by-element or the broadcasting operator of a function."""

Formula = Callable[[Binary, NodeEntry, NodeEntry, NodeEntry, NodeEntry], tuple[NodeEntry, NodeEntry]]
"""(f, head gradient g, left x, right y, output z) → gradients of x and y, in the shape of z."""


@dataclass(frozen=True)
class BinaryFunction:
    """A function of two numbers, in all its operators.

    name: after `broadcast_`. op: the element-by-element operator. gradient: None for functions that are constant
    between their steps. storage, broadcast_storage: of the two operators. numpy: the operator of MXNet's NumPy dialect.
    card: more of what `register_op` takes.
    """

    name: str
    op: str
    aliases: tuple[str, ...]
    broadcast_aliases: tuple[str, ...]
    gradient: Formula | None
    doc: str
    storage: StorageRule | None
    broadcast_storage: StorageRule | None
    numpy: str
    card: dict[str, Any]


def _div_gradient(f: Binary, g: NodeEntry, x: NodeEntry, y: NodeEntry, z: NodeEntry):
    """dX = dZ / Y, dY = -dZ / Y · Z."""
    dx = f("div", g, y)
    return dx, apply("negative", f("mul", dx, z))


def zero_of_integers(g: NodeEntry) -> NodeEntry:
    """g, and 0 for integers, of which half of 1 is 0: MXNet's gradient of a remainder of integers."""
    half = apply("_div_scalar", apply("ones_like", g), scalar=2.0)
    return mul(g, apply("_mul_scalar", half, scalar=2.0))


def _mod_gradient(f: Binary, g: NodeEntry, x: NodeEntry, y: NodeEntry, z: NodeEntry):
    """dX = dZ, dY = -dZ ⌊X / Y⌋; 0 for integers."""
    g = zero_of_integers(g)
    return g, apply("negative", f("mul", g, apply("floor", f("div", x, y))))


def _power_gradient(f: Binary, g: NodeEntry, x: NodeEntry, y: NodeEntry, z: NodeEntry):
    """dX = dZ Y X^(Y-1), dY = dZ Z log X; as in MXNet NaN where X is 0 and the formula is."""
    slope = f("mul", y, f("power", x, apply("_minus_scalar", y, scalar=1.0)))
    return f("mul", g, slope), f("mul", g, f("mul", z, apply("log", x)))


def _hypot_gradient(f: Binary, g: NodeEntry, x: NodeEntry, y: NodeEntry, z: NodeEntry):
    """dX = dZ X / Z, dY = dZ Y / Z, of sides that are made smaller or larger so that their Z is in range."""
    scale = hypot_scale(f("maximum", apply("abs", x), apply("abs", y)))
    x, y = f("div", x, scale), f("div", y, scale)
    z = elementwise("hypot", x, y)
    return f("mul", g, f("div", x, z)), f("mul", g, f("div", y, z))


def hypot_scale(larger: NodeEntry) -> NodeEntry:
    """Return what divides both sides: the larger one, but at most 2 (infinite ones stay), of integers at most 1."""
    half = apply("_div_scalar", apply("ones_like", larger), scalar=2.0)
    most = apply("_plus_scalar", apply("_mul_scalar", half, scalar=2.0), scalar=1.0)
    return apply("BlockGrad", apply("_minimum", larger, most))


def _extreme_gradient(left: str, right: str) -> Formula:
    """Each side receives the gradient where its comparison holds; lhs wins ties."""
    return lambda f, g, x, y, z: (f("mul", g, f(left, x, y)), f("mul", g, f(right, x, y)))


def _row(
    name: str,
    gradient: Formula | None,
    doc: str,
    *aliases: str,
    op: str = "",
    broadcast: tuple[str, ...] = (),
    storage: StorageRule | None = None,
    broadcast_storage: StorageRule | None = None,
    numpy: str = "",
    **card: Any,
):
    return BinaryFunction(
        name, op or f"_{name}", aliases, broadcast, gradient, doc, storage, broadcast_storage, numpy, card
    )


MOD_ZERO = "x mod 0 = 0, with the gradient of x"
"""Why the gradient of a remainder is not its derivative."""

FUNCTIONS: tuple[BinaryFunction, ...] = (
    _row(
        "add",
        lambda f, g, x, y, z: (g, g),
        "lhs + rhs.",
        *("add", "_Plus", "_add", "_plus", "_sparse_elemwise_add"),
        op="elemwise_add",
        numpy="_npi_add",
        broadcast=("_sparse_broadcast_add", "_sparse_broadcast_plus", "broadcast_plus"),
        storage=storage_of_all,
        precision="either",
    ),
    _row(
        "sub",
        lambda f, g, x, y, z: (g, apply("negative", g)),
        "lhs - rhs.",
        *("_Minus", "_minus", "_sparse_elemwise_sub", "_sub"),
        op="elemwise_sub",
        numpy="_npi_subtract",
        broadcast=("_sparse_broadcast_minus", "_sparse_broadcast_sub", "broadcast_minus"),
        storage=storage_of_all,
        precision="either",
    ),
    _row(
        "mul",
        lambda f, g, x, y, z: (f("mul", g, y), f("mul", g, x)),
        "lhs · rhs.",
        *("_Mul", "_mul", "_sparse_elemwise_mul"),
        op="elemwise_mul",
        numpy="_npi_multiply",
        broadcast=("_sparse_broadcast_mul",),
        storage=storage_of_product,
        broadcast_storage=storage_of_scaled,
        precision="either",
    ),
    _row(
        "div",
        _div_gradient,
        "lhs / rhs; of integers truncated towards 0.",
        *("_Div", "_div", "_sparse_elemwise_div"),
        op="elemwise_div",
        numpy="_npi_true_divide",
        broadcast=("_sparse_broadcast_div",),
        broadcast_storage=storage_of_scaled,
    ),
    _row(
        "mod",
        _mod_gradient,
        "lhs modulo rhs, with the sign of rhs; 0 where rhs is 0.",
        "_Mod",
        numpy="_npi_mod",
        not_derivative=MOD_ZERO,
    ),
    _row("power", _power_gradient, "lhs to the power of rhs.", "_Power", numpy="_npi_power"),
    _row(
        "maximum",
        _extreme_gradient("greater_equal", "lesser"),
        "The larger one; lhs receives the gradient of ties.",
        "_Maximum",
        broadcast=("_npi_maximum",),
        storage=storage_of_all,
        precision="either",
    ),
    _row(
        "minimum",
        _extreme_gradient("lesser_equal", "greater"),
        "The smaller one; lhs receives the gradient of ties.",
        "_Minimum",
        broadcast=("_npi_minimum",),
        storage=storage_of_all,
        precision="either",
    ),
    _row("hypot", _hypot_gradient, "√(lhs² + rhs²).", "_Hypot", storage=storage_of_all, numpy="_npi_hypot"),
    _row("equal", None, "1 where lhs = rhs, else 0; of the dtype of lhs.", "_Equal", numpy="_npi_equal"),
    _row("not_equal", None, "1 where lhs ≠ rhs, else 0; of the dtype of lhs.", "_Not_Equal", numpy="_npi_not_equal"),
    _row("greater", None, "1 where lhs > rhs, else 0; of the dtype of lhs.", "_Greater", numpy="_npi_greater"),
    _row(
        "greater_equal",
        None,
        "1 where lhs ≥ rhs, else 0; of the dtype of lhs.",
        "_Greater_Equal",
        numpy="_npi_greater_equal",
    ),
    _row("lesser", None, "1 where lhs < rhs, else 0; of the dtype of lhs.", "_Lesser", numpy="_npi_less"),
    _row(
        "lesser_equal",
        None,
        "1 where lhs ≤ rhs, else 0; of the dtype of lhs.",
        "_Lesser_Equal",
        numpy="_npi_less_equal",
    ),
    _row("logical_and", None, "1 where both are not 0, else 0; of the dtype of lhs.", "_Logical_And"),
    _row("logical_or", None, "1 where one is not 0, else 0; of the dtype of lhs.", "_Logical_Or"),
    _row("logical_xor", None, "1 where exactly one is not 0, else 0; of the dtype of lhs.", "_Logical_Xor"),
)

_OPERATORS = {row.name: row.op for row in FUNCTIONS}


def elementwise(name: str, left: NodeEntry, right: NodeEntry) -> NodeEntry:
    """Apply the element-by-element operator of a function."""
    return apply(_OPERATORS[name], left, right)


def number_type(p: object, ins: Types, outs: Types) -> tuple[Types, Types]:
    """One dtype for all, which is not boolean: arithmetic is for numbers."""
    ins, outs = same_type(p, ins, outs)
    if "bool" in ins:
        raise InferenceError("This operator cannot compute with booleans", expected="a number's dtype", got="bool")
    return ins, outs


def need_whole(dtype: DType | None) -> None:
    """Raise InferenceError for a floating-point dtype."""
    if is_float(dtype):
        problem = f"This operation only support integer types, not {dtype}"
        raise InferenceError(problem, expected="a dtype of whole numbers, or bool", got=dtype)


def type_rule(row: BinaryFunction):
    """Comparisons and logic take booleans as well."""
    return same_type if row.gradient is None else number_type


def _gradient_of(formula: Formula | None):
    if formula is None:
        return lambda node, ograds: [None, None]

    def gradient(node: Node, ograds: Entries) -> Entries:
        lhs, rhs = node.inputs
        return list(formula(elementwise, ograds[0], lhs, rhs, NodeEntry(node, 0, 0)))

    return gradient


def _mul_gradient(node: Node, ograds: Entries):
    """dX and dY are the two outputs of one node, as in MXNet."""
    backward = apply("_backward_mul", ograds[0], *node.inputs, name=f"{node.name}_backward", control_deps=[node])
    return [backward, backward._replace(index=1)]


for _function in FUNCTIONS:
    register_op(
        _function.op,
        inputs=("lhs", "rhs"),
        aliases=_function.aliases,
        infer_shape=same_shape,
        infer_type=type_rule(_function),
        gradient=_mul_gradient if _function.name == "mul" else _gradient_of(_function.gradient),
        inplace=((0, 0), (1, 0)),
        flops=1,
        layout="agnostic",
        storage=_function.storage,
        doc=_function.doc,
        **_function.card,
    )

Op.get("elemwise_add").set_attr("TAdds", True)
for _name in ("elemwise_add", "elemwise_mul"):
    Op.get(_name).set_attr("FQuantized", quantized_as(f"_contrib_quantized_{_name}", requantized=True))

register_op(
    "_grad_add",
    inputs=("lhs", "rhs"),
    infer_shape=same_shape,
    infer_type=number_type,
    gradient=lambda node, ograds: [ograds[0], ograds[0]],
    inplace=((0, 0),),
    flops=1,
    storage=storage_of_all,
    doc="lhs + rhs: a step in the summation of many gradients.",
)

# -- the gradient of elemwise_mul ------------------------------------------------------------------------------------


def _is_zero(entry: NodeEntry) -> bool:
    """Whether nothing flows into an output: XLA does not drop 0 · x."""
    return entry.node.op is not None and entry.node.op.name in ("_zeros", "zeros_like")


def _backward_mul_gradient(node: Node, ograds: Entries):
    """The gradient for head gradients a of dZ Y and b of dZ X: a Y + b X into dZ, b dZ into X, a dZ into Y."""
    a, b = (None if _is_zero(ograd) else ograd for ograd in ograds)
    g, x, y = node.inputs
    of_a = None if a is None else apply("elemwise_mul", a, y)
    of_b = None if b is None else apply("elemwise_mul", b, x)
    dg = apply("elemwise_add", of_a, of_b) if of_a is not None and of_b is not None else of_a or of_b
    dx = None if b is None else apply("elemwise_mul", b, g)
    return [dg, dx, None if a is None else apply("elemwise_mul", a, g)]


register_op(
    "_backward_mul",
    inputs=("ograd", "lhs", "rhs"),
    num_outputs=2,
    infer_shape=same_shape,
    infer_type=number_type,
    gradient=_backward_mul_gradient,
    inplace=((0, 1),),
    TIsBackward=True,
    doc="The gradients of elemwise_mul: ograd · rhs and ograd · lhs.",
)

# -- add_n -----------------------------------------------------------------------------------------------------------


class AddNParams(Params):
    num_args: int = param(ge=1, le=MAX_COUNT, doc="number of inputs")


register_op(
    "add_n",
    aliases=("ElementWiseSum", "_sparse_ElementWiseSum", "_sparse_add_n", "elemwise_sum"),
    params=AddNParams,
    variadic="num_args",
    infer_shape=same_shape,
    infer_type=number_type,
    gradient=lambda node, ograds: ograds * len(node.inputs),
    inplace=((0, 0),),
    flops=lambda p, ins, outs: Flops(0, prod(outs[0]) * (len(ins) - 1)),
    precision="either",
    layout="agnostic",
    storage=lambda p, ins: "row_sparse" if set(ins) == {"row_sparse"} else "default",
    doc="The sum of all inputs.",
)
