"""Functions of an array and a number: arithmetic, extremes, comparisons, logic, with the number on either side."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from symjax_nnvm.ir.node import NodeEntry, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Types, check_number, register_op, same_shape, same_type
from symjax_nnvm.ir.rules.storage import storage_of_data, storage_where
from symjax_nnvm.ir.types import is_float
from symjax_nnvm.ops.elementwise.binary import (
    MOD_ZERO,
    div,
    elementwise,
    hypot_scale,
    mul,
    need_whole,
    zero_of_integers,
)

Formula = Callable[[float, NodeEntry, NodeEntry, NodeEntry], NodeEntry | None]
"""(number s, head gradient g, data x, output y) → gradient of data; None where nothing flows."""


minus_one = partial(apply, "_minus_scalar", scalar=1.0)
one_minus = partial(apply, "_rminus_scalar", scalar=1.0)


def times(x: NodeEntry, number: float) -> NodeEntry:
    """x · number."""
    return apply("_mul_scalar", x, scalar=number)


def plus(x: NodeEntry, number: float) -> NodeEntry:
    """x + number."""
    return apply("_plus_scalar", x, scalar=number)


class ScalarParams(Params):
    scalar: float = param(1.0, doc="the number; of integer data only its whole part counts")
    is_int: bool = param(True, doc="whether integer data stay integers; if not, they become float64")


def _scalar_type(p: ScalarParams, ins: Types, outs: Types):
    """data of any dtype → the same; booleans become int64, and without is_int all but floats become float64."""
    data, out = ins[0], outs[0]
    if data is None and (p.is_int or out != "float64"):
        data = out
    if data is None or is_float(data):
        return [data], [data]
    if not p.is_int:
        return [data], ["float64"]
    result = "int64" if data == "bool" else data
    check_number("scalar", p.scalar, result)
    return [data], [result]


def _power_gradient(s: float, g: NodeEntry, x: NodeEntry, y: NodeEntry) -> NodeEntry | None:
    """dX = dY s X^(s-1); exact at 0 for whole s, so that every higher derivative is."""
    if s == 0:
        return None
    if s == 1:
        return g
    return mul(times(g, s), x if s == 2 else apply("_power_scalar", x, scalar=s - 1))


def _rpower_gradient(s: float, g: NodeEntry, x: NodeEntry, y: NodeEntry) -> NodeEntry:
    """dX = dY Y log s; NaN for negative s."""
    with np.errstate(all="ignore"):
        return times(mul(g, y), float(np.log(s)))


def _hypot_gradient(s: float, g: NodeEntry, x: NodeEntry, y: NodeEntry) -> NodeEntry:
    """dX = dY X / Y, of sides that are made smaller or larger so that their Y is in range."""
    scale = hypot_scale(apply("_maximum_scalar", apply("abs", x), scalar=abs(s)))
    x = div(x, scale)
    return mul(g, div(x, elementwise("hypot", x, apply("_rdiv_scalar", scale, scalar=s))))


FUNCTIONS: tuple[tuple[str, tuple[str, ...], Formula | None, str], ...] = (
    ("_plus_scalar", ("_PlusScalar",), lambda s, g, x, y: g, "data + scalar."),
    ("_minus_scalar", ("_MinusScalar",), lambda s, g, x, y: g, "data - scalar."),
    ("_rminus_scalar", ("_RMinusScalar",), lambda s, g, x, y: apply("negative", g), "scalar - data."),
    ("_mul_scalar", ("_MulScalar",), lambda s, g, x, y: times(g, s), "data · scalar."),
    (
        "_div_scalar",
        ("_DivScalar",),
        lambda s, g, x, y: apply("_div_scalar", g, scalar=s),
        "data / scalar; of integers truncated towards 0.",
    ),
    (
        "_rdiv_scalar",
        ("_RDivScalar",),
        lambda s, g, x, y: apply("negative", mul(div(g, x), y)),
        "scalar / data; of integers truncated towards 0.",
    ),
    (
        "_mod_scalar",
        ("_ModScalar",),
        lambda s, g, x, y: zero_of_integers(g),
        "data modulo scalar, with its sign; 0 when it is 0.",
    ),
    (
        "_rmod_scalar",
        ("_RModScalar",),
        lambda s, g, x, y: apply(
            "negative", mul(zero_of_integers(g), apply("floor", apply("_rdiv_scalar", x, scalar=s)))
        ),
        "scalar modulo data, with the sign of data; 0 where data is 0.",
    ),
    ("_power_scalar", ("_PowerScalar",), _power_gradient, "data to the power of scalar."),
    ("_rpower_scalar", ("_RPowerScalar",), _rpower_gradient, "scalar to the power of data."),
    (
        "_maximum_scalar",
        ("_MaximumScalar", "_npi_maximum_scalar"),
        lambda s, g, x, y: mul(g, apply("_greater_equal_scalar", x, scalar=s)),
        "The larger one; data receives the gradient of ties.",
    ),
    (
        "_minimum_scalar",
        ("_MinimumScalar", "_npi_minimum_scalar"),
        lambda s, g, x, y: mul(g, apply("_lesser_equal_scalar", x, scalar=s)),
        "The smaller one; data receives the gradient of ties.",
    ),
    (
        "_hypot_scalar",
        ("_HypotScalar", "_npi_hypot_scalar"),
        _hypot_gradient,
        "√(data² + scalar²).",
    ),
    ("_equal_scalar", ("_EqualScalar",), None, "1 where data = scalar, else 0."),
    ("_not_equal_scalar", ("_NotEqualScalar",), None, "1 where data ≠ scalar, else 0."),
    ("_greater_scalar", ("_GreaterScalar",), None, "1 where data > scalar, else 0."),
    ("_greater_equal_scalar", ("_GreaterEqualScalar",), None, "1 where data ≥ scalar, else 0."),
    ("_lesser_scalar", ("_LesserScalar",), None, "1 where data < scalar, else 0."),
    ("_lesser_equal_scalar", ("_LesserEqualScalar",), None, "1 where data ≤ scalar, else 0."),
    ("_logical_and_scalar", ("_LogicalAndScalar",), None, "1 where both are not 0, else 0."),
    ("_logical_or_scalar", ("_LogicalOrScalar",), None, "1 where one is not 0, else 0."),
    ("_logical_xor_scalar", ("_LogicalXorScalar",), None, "1 where exactly one is not 0, else 0."),
)


def same_sign(x: NodeEntry, y: NodeEntry) -> NodeEntry:
    """1 where two truth values are equal, else -1."""
    return minus_one(times(apply("broadcast_equal", x, y), 2.0))


def _copysign_gradient(s: float, g: NodeEntry, x: NodeEntry, y: NodeEntry) -> NodeEntry:
    """dX = dY where X and s have one sign, else -dY."""
    positive = times(apply("_greater_equal_scalar", x, scalar=0.0), 2.0)
    return mul(g, minus_one(positive) if s >= 0 else one_minus(positive))


def _over_squares(g: NodeEntry, x: NodeEntry, s: float) -> NodeEntry:
    """Return g s / (x² + s²)."""
    size = apply("_hypot_scalar", x, scalar=s)
    return div(div(times(g, s), size), size)


OF_NUMPY: tuple[tuple[str, Formula | None, str], ...] = (
    (
        "true_divide",
        lambda s, g, x, y: apply("_cast_like", apply("_div_scalar", g, scalar=s), x),
        "data / scalar; of whole numbers in float32.",
    ),
    (
        "rtrue_divide",
        lambda s, g, x, y: apply("_cast_like", apply("negative", mul(div(g, apply("_cast_like", x, y)), y)), x),
        "scalar / data; of whole numbers in float32.",
    ),
    ("arctan2", lambda s, g, x, y: _over_squares(g, x, s), "The angle of the point (scalar, data), in (-π, π]."),
    (
        "rarctan2",
        lambda s, g, x, y: apply("negative", _over_squares(g, x, s)),
        "The angle of the point (data, scalar), in (-π, π].",
    ),
    ("copysign", _copysign_gradient, "|data| with the sign of scalar."),
    ("rcopysign", lambda s, g, x, y: None, "|scalar| with the sign of data."),
    ("ldexp", lambda s, g, x, y: apply("_npi_ldexp_scalar", g, scalar=s), "data · 2^scalar."),
    ("rldexp", lambda s, g, x, y: times(mul(g, y), math.log(2)), "scalar · 2^data."),
    ("lcm", None, "The least common multiple, which is not negative; 0 where one is 0."),
    ("bitwise_and", None, "The bits that both have; of booleans whether both are true."),
    ("bitwise_or", None, "The bits that one has; of booleans whether one is true."),
    ("bitwise_xor", None, "The bits that exactly one has; of booleans whether exactly one is true."),
    *(
        (name.replace("lesser", "less"), None, f"Whether data {sign} scalar; booleans are 0 and 1, unlike MXNet's.")
        for name, sign in (
            *(("equal", "="), ("not_equal", "≠"), ("greater", ">"), ("greater_equal", "≥")),
            *(("lesser", "<"), ("lesser_equal", "≤")),
        )
    ),
)
"""Functions of MXNet's NumPy dialect that the classic one lacks, `_npi_{name}_scalar`."""

NUMPY = {
    **{f"_{name}_scalar": name for name in ("mod", "rmod", "power", "rpower")},
    "_plus_scalar": "add",
    "_minus_scalar": "subtract",
    "_rminus_scalar": "rsubtract",
    "_mul_scalar": "multiply",
}
"""The classic operators that are the same in the dialect → `_npi_{name}_scalar`."""


def _division_type(p: ScalarParams, ins: Types, outs: Types):
    """data → the same floating-point dtype, or float32."""
    data = ins[0]
    return [data], [data if data is None or is_float(data) else "float32"]


def _truth_type(p: ScalarParams, ins: Types, outs: Types):
    """data → booleans."""
    _, (compared,) = _scalar_type(p, ins, [None])
    return ins, [compared and "bool"]


def _whole_type(p: ScalarParams, ins: Types, outs: Types):
    """data of whole numbers or bool → the same."""
    inputs, outputs = same_type(p, ins, outs)
    need_whole(outputs[0])
    check_number("scalar", p.scalar, outputs[0])
    return inputs, outputs


_COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
_COMPARED = Deviation(
    "booleans compared with a number are 0 and 1; MXNet takes every number but 0 for 1",
    when=lambda p: p.scalar not in (0, 1),
)
_DEVIATIONS = {
    "rarctan2": Deviation("the gradient is the derivative; MXNet's is not", "training"),
    "copysign": Deviation("it has a gradient; MXNet's fails", "training"),
    "rcopysign": Deviation("it has a gradient, of 0; MXNet's fails", "training"),
    "lcm": Deviation("MXNet's ends the process"),
}
_TYPES = {
    **dict.fromkeys(("true_divide", "rtrue_divide"), _division_type),
    **dict.fromkeys(("lcm", "bitwise_and", "bitwise_or", "bitwise_xor"), _whole_type),
    **dict.fromkeys(_COMPARISONS, _truth_type),
}

_EITHER = {
    *("_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar"),
    *("_maximum_scalar", "_minimum_scalar"),
}
_STORAGE = {
    **dict.fromkeys(("_mul_scalar", "_div_scalar"), storage_of_data),
    **dict.fromkeys(("_plus_scalar", "_minus_scalar", "_not_equal_scalar"), storage_where(lambda s: s == 0)),
    "_equal_scalar": storage_where(lambda s: s != 0),
    "_greater_scalar": storage_where(lambda s: s >= 0),
    "_greater_equal_scalar": storage_where(lambda s: s > 0),
    "_lesser_scalar": storage_where(lambda s: s <= 0),
    "_lesser_equal_scalar": storage_where(lambda s: s < 0),
}
_NOT_DERIVATIVE = {"_mod_scalar": lambda p: MOD_ZERO if p.scalar == 0 else None, "_rmod_scalar": MOD_ZERO}


_CARD: dict[str, Any] = {
    "params": ScalarParams,
    "infer_shape": same_shape,
    "inplace": ((0, 0),),
    "flops": 1,
    "layout": "agnostic",
}


def _gradient_of(formula: Formula | None):
    if formula is None:
        return lambda node, ograds: [None]
    return lambda node, ograds: [
        formula(node.attrs.parsed.scalar, ograds[0], node.inputs[0], NodeEntry(node, 0, 0)),
    ]


for _name, _aliases, _formula, _doc in FUNCTIONS:
    _card: dict[str, Any] = {
        **_CARD,
        "infer_type": _scalar_type,
        "gradient": _gradient_of(_formula),
        "precision": "either" if _name in _EITHER else None,
        "not_derivative": _NOT_DERIVATIVE.get(_name),
        "storage": _STORAGE.get(_name),
        "doc": _doc,
    }
    register_op(_name, aliases=_aliases, **_card)
    if _name in NUMPY:
        register_op(f"_npi_{NUMPY[_name]}_scalar", inputs=("data",), twin_of=_name, **{**_card, "storage": None})

for _name, _formula, _doc in OF_NUMPY:
    register_op(
        f"_npi_{_name}_scalar",
        inputs=("data",),
        infer_type=_TYPES.get(_name, _scalar_type),
        gradient=_gradient_of(_formula),
        deviation=_DEVIATIONS.get(_name, _COMPARED if _name in _COMPARISONS else ()),
        doc=_doc,
        **_CARD,
    )
