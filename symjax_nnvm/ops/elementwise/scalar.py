"""Functions of an array and a number: arithmetic, extremes, comparisons, logic, with the number on either side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from symjax_nnvm.ir.node import NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Types, check_number, register_op, same_shape
from symjax_nnvm.ir.rules.storage import storage_of_data, storage_where
from symjax_nnvm.ir.types import is_float
from symjax_nnvm.ops.elementwise.binary import MOD_ZERO, div, elementwise, hypot_scale, mul, zero_of_integers

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
    check_number("scalar", p.scalar, data)
    return [data], ["int64" if data == "bool" else data]


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


def _gradient_of(formula: Formula | None):
    if formula is None:
        return lambda node, ograds: [None]
    return lambda node, ograds: [
        formula(node.attrs.parsed.scalar, ograds[0], node.inputs[0], NodeEntry(node, 0, 0)),
    ]


for _name, _aliases, _formula, _doc in FUNCTIONS:
    register_op(
        _name,
        aliases=_aliases,
        params=ScalarParams,
        infer_shape=same_shape,
        infer_type=_scalar_type,
        gradient=_gradient_of(_formula),
        inplace=((0, 0),),
        flops=1,
        precision="either" if _name in _EITHER else None,
        not_derivative=_NOT_DERIVATIVE.get(_name),
        layout="agnostic",
        storage=_STORAGE.get(_name),
        doc=_doc,
    )
