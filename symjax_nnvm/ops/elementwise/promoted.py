"""Functions of two broadcast arrays in MXNet's NumPy dialect: dtypes are promoted, and comparisons are boolean."""

from __future__ import annotations

import math
from typing import Any

from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.register import Entries, TypeRule, Types, float_type, register_op, same_type
from symjax_nnvm.ir.rules.promotion import Mixing, promoted
from symjax_nnvm.ops.elementwise.binary import FUNCTIONS, Binary, BinaryFunction, Formula, need_whole, number_type
from symjax_nnvm.ops.elementwise.broadcast import broadcast_shapes, broadcasting
from symjax_nnvm.ops.elementwise.scalar import same_sign, times

MIXING: dict[str, Mixing] = {
    **dict.fromkeys(("add", "mul", "power"), "all"),
    **dict.fromkeys(("sub", "mod"), "numbers"),
    "div": "division",
}
"""The functions that take two arrays of different dtypes → which."""


def _mixed(mixing: Mixing) -> TypeRule:
    def rule(p: object, ins: Types, outs: Types) -> tuple[Types, Types]:
        """Arrays of dtypes that mix; where one is not known, it is the other's."""
        lhs, rhs = ins
        if lhs is None or rhs is None:
            dtype = lhs or rhs or outs[0]
            return [dtype, dtype], [dtype and promoted(dtype, dtype, mixing)]
        return ins, [promoted(lhs, rhs, mixing)]

    return rule


def truth_type(p: object, ins: Types, outs: Types) -> tuple[Types, Types]:
    """Arrays of one dtype → booleans."""
    inputs, _ = same_type(p, ins, ())
    return inputs, ["bool"]


def whole_type(p: object, ins: Types, outs: Types) -> tuple[Types, Types]:
    """Every input and output has one dtype, of whole numbers or bool."""
    inputs, outputs = same_type(p, ins, outs)
    need_whole(outputs[0])
    return inputs, outputs


def _arctan2_gradient(f: Binary, g: NodeEntry, x: NodeEntry, y: NodeEntry, z: NodeEntry):
    """dX = dZ Y / (X² + Y²), dY = -dZ X / (X² + Y²)."""
    size = f("hypot", x, y)
    over = f("div", g, size)
    return f("mul", over, f("div", y, size)), apply("negative", f("mul", over, f("div", x, size)))


def _copysign_gradient(f: Binary, g: NodeEntry, x: NodeEntry, y: NodeEntry, z: NodeEntry):
    """dX = dZ where X and Y have one sign, else -dZ; dY = 0."""
    x_positive, y_positive = (apply("_greater_equal_scalar", side, scalar=0.0) for side in (x, y))
    return f("mul", g, same_sign(x_positive, y_positive)), apply("zeros_like", y)


def _ldexp_gradient(f: Binary, g: NodeEntry, x: NodeEntry, y: NodeEntry, z: NodeEntry):
    """dX = dZ 2^Y, dY = dZ Z log 2."""
    return f("mul", g, apply("_rpower_scalar", y, scalar=2.0)), times(f("mul", g, z), math.log(2))


def _row(name: str, gradient: Formula | None, doc: str) -> BinaryFunction:
    return BinaryFunction(name, "", (), (), gradient, doc, None, None, f"_npi_{name}", {})


OWN: tuple[BinaryFunction, ...] = (
    _row("arctan2", _arctan2_gradient, "The angle of the point (rhs, lhs), in (-π, π]."),
    _row("copysign", _copysign_gradient, "|lhs| with the sign of rhs."),
    _row("ldexp", _ldexp_gradient, "lhs · 2^rhs."),
    _row("lcm", None, "The least common multiple, which is not negative; 0 where one is 0."),
    _row("bitwise_and", None, "The bits that both have; of booleans whether both are true."),
    _row("bitwise_or", None, "The bits that one has; of booleans whether one is true."),
    _row("bitwise_xor", None, "The bits that exactly one has; of booleans whether exactly one is true."),
)
"""Functions that the classic operators do not have."""

NUMPY = {row.name: row.numpy for row in (*FUNCTIONS, *OWN) if row.numpy}
"""Function's name → operator."""

TYPES: dict[str, TypeRule] = {
    **{name: _mixed(mixing) for name, mixing in MIXING.items()},
    **dict.fromkeys(("hypot", "arctan2"), float_type),
    **dict.fromkeys(("copysign", "ldexp"), number_type),
    **dict.fromkeys(("lcm", "bitwise_and", "bitwise_or", "bitwise_xor"), whole_type),
}


def _function(name: str, left: NodeEntry, right: NodeEntry) -> NodeEntry:
    """Apply a function in a gradient, where a boolean may be combined with any dtype in a product or power."""
    return apply(NUMPY[name], left, right) if name in ("mul", "power") else broadcasting(name, left, right)


def _gradient_of(row: BinaryFunction):
    """The formula for operands of the result's dtype; each gradient is summed and cast back to its operand's."""
    formula, mixes = row.gradient, row.name in MIXING
    if formula is None:
        return lambda node, ograds: [None, None]

    def back(gradient: NodeEntry, operand: NodeEntry) -> NodeEntry:
        summed = apply("_sum_like", gradient, operand)
        return apply("_cast_like", summed, operand) if mixes else summed

    def gradient(node: Node, ograds: Entries) -> Entries:
        result = NodeEntry(node, 0, 0)
        left, right = [apply("_cast_like", x, result) for x in node.inputs] if mixes else node.inputs
        of_both = formula(_function, ograds[0], left, right, result)
        return [back(of_one, operand) for of_one, operand in zip(of_both, node.inputs, strict=True)]

    return gradient


def _card(row: BinaryFunction) -> dict[str, Any]:
    """What the classic function's card has besides, without the dtype of a truth value."""
    if row.name == "div":
        return row.card | {"doc": "lhs / rhs, with broadcasting; of whole numbers in float32."}
    return row.card | {"doc": f"{row.doc.removesuffix('; of the dtype of lhs.').rstrip('.')}, with broadcasting."}


for _function_row in (*FUNCTIONS, *OWN):
    if _function_row.numpy:
        register_op(
            _function_row.numpy,
            inputs=("x1", "x2") if _function_row.name in ("hypot", "arctan2") else ("lhs", "rhs"),
            infer_shape=broadcast_shapes,
            infer_type=TYPES.get(_function_row.name, truth_type),
            gradient=_gradient_of(_function_row),
            flops=1,
            broadcasts=True,
            **_card(_function_row),
        )
