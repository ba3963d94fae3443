"""Functions of one array, element by element: roots, exponentials, trigonometry, activations, rounding, casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from symjax_nnvm.ir.attributes import with_twin
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, float_type, register_op, same_shape, same_type
from symjax_nnvm.ir.rules.storage import storage_of_data
from symjax_nnvm.ops.elementwise.binary import div, mul, number_type
from symjax_nnvm.ops.elementwise.scalar import one_minus, plus, times

Formula = Callable[[NodeEntry, NodeEntry, NodeEntry], NodeEntry | None]
"""(head gradient g, data x, output y) → gradient of data; None where nothing flows."""

_sqrt = partial(apply, "sqrt")
square = partial(apply, "square")
log = partial(apply, "log")
digamma = partial(apply, "_polygamma", n=0)


def _over_square(g: NodeEntry, x: NodeEntry) -> NodeEntry:
    """Return g / x², whose x² half precision may not hold."""
    return mul(div(g, x), apply("reciprocal", x))


def _no_gradient(g: NodeEntry, x: NodeEntry, y: NodeEntry) -> None:
    """The gradient is zero: the function is constant between its steps."""


# -- functions without parameters: (name, gradient, meaning) ---------------------------------------------------------

FUNCTIONS: tuple[tuple[str, Formula, str], ...] = (
    ("abs", lambda g, x, y: mul(g, apply("sign", x)), "|x|; its gradient at 0 is 0."),
    ("negative", lambda g, x, y: apply("negative", g), "-x."),
    ("reciprocal", lambda g, x, y: apply("negative", mul(g, square(y))), "1 / x."),
    ("square", lambda g, x, y: times(mul(g, x), 2.0), "x²."),
    ("sqrt", lambda g, x, y: div(times(g, 0.5), y), "√x."),
    ("rsqrt", lambda g, x, y: div(mul(times(g, -0.5), y), x), "1 / √x."),
    ("cbrt", lambda g, x, y: div(times(g, 1 / 3), square(y)), "The cube root of x."),
    ("rcbrt", lambda g, x, y: div(mul(times(g, -1 / 3), y), x), "1 over the cube root of x."),
    ("exp", lambda g, x, y: mul(g, y), "eˣ."),
    ("expm1", lambda g, x, y: mul(g, apply("exp", x)), "eˣ - 1, precise near 0."),
    ("log", lambda g, x, y: div(g, x), "The natural logarithm."),
    ("log10", lambda g, x, y: div(times(g, 1 / math.log(10)), x), "The logarithm to base 10."),
    ("log2", lambda g, x, y: div(g, times(x, math.log(2))), "The logarithm to base 2."),
    ("log1p", lambda g, x, y: div(g, plus(x, 1.0)), "log(1 + x), precise near 0."),
    ("sin", lambda g, x, y: mul(g, apply("cos", x)), "The sine of radians."),
    ("cos", lambda g, x, y: apply("negative", mul(g, apply("sin", x))), "The cosine of radians."),
    ("tan", lambda g, x, y: mul(g, plus(square(y), 1.0)), "The tangent of radians."),
    ("arcsin", lambda g, x, y: div(g, _sqrt(one_minus(square(x)))), "The inverse of sin, in [-π/2, π/2]."),
    (
        "arccos",
        lambda g, x, y: apply("negative", div(g, _sqrt(one_minus(square(x))))),
        "The inverse of cos, in [0, π].",
    ),
    (
        "arctan",
        lambda g, x, y: _over_square(g, apply("_hypot_scalar", x, scalar=1.0)),
        "The inverse of tan, in (-π/2, π/2).",
    ),
    ("degrees", lambda g, x, y: times(g, 180 / math.pi), "Radians to degrees."),
    ("radians", lambda g, x, y: times(g, math.pi / 180), "Degrees to radians."),
    ("sinh", lambda g, x, y: mul(g, apply("cosh", x)), "The hyperbolic sine."),
    ("cosh", lambda g, x, y: mul(g, apply("sinh", x)), "The hyperbolic cosine."),
    ("tanh", lambda g, x, y: mul(g, one_minus(square(y))), "The hyperbolic tangent."),
    ("arcsinh", lambda g, x, y: div(g, apply("_hypot_scalar", x, scalar=1.0)), "The inverse of sinh."),
    ("arccosh", lambda g, x, y: div(g, mul(_sqrt(plus(x, -1.0)), _sqrt(plus(x, 1.0)))), "The inverse of cosh, ≥ 0."),
    ("arctanh", lambda g, x, y: div(g, one_minus(square(x))), "The inverse of tanh."),
    (
        "erf",
        lambda g, x, y: mul(times(g, 2 / math.sqrt(math.pi)), apply("exp", apply("negative", square(x)))),
        "The error function.",
    ),
    (
        "erfinv",
        lambda g, x, y: mul(times(g, math.sqrt(math.pi) / 2), apply("exp", square(y))),
        "The inverse of erf.",
    ),
    ("gamma", lambda g, x, y: mul(g, mul(y, digamma(x))), "Γ(x)."),
    ("gammaln", lambda g, x, y: mul(g, digamma(x)), "log |Γ(x)|."),
    (
        "relu",
        lambda g, x, y: mul(g, apply("sign", y)),  # which is nan at nan, as MXNet's is
        "max(x, 0); its gradient at 0 is 0.",
    ),
    ("sigmoid", lambda g, x, y: mul(g, mul(y, one_minus(y))), "1 / (1 + e⁻ˣ)."),
    ("softsign", lambda g, x, y: _over_square(g, plus(apply("abs", x), 1.0)), "x / (1 + |x|)."),
    ("sign", _no_gradient, "-1, 0 or 1."),
    ("rint", _no_gradient, "The nearest integer; halves go down: 2.5 → 2, -2.5 → -3."),
    ("round", _no_gradient, "The nearest integer; halves go away from 0."),
    ("ceil", _no_gradient, "The next integer that is not smaller."),
    ("floor", _no_gradient, "The next integer that is not larger."),
    ("trunc", _no_gradient, "The next integer towards 0."),
    ("fix", _no_gradient, "The next integer towards 0."),
    ("logical_not", _no_gradient, "1 where x is 0, else 0; of the dtype of x."),
)

# MXNet has the others under `_sparse_{name}`, too.
_NOT_SPARSE = {"erf", "erfinv", "rcbrt", "reciprocal", "softsign", "logical_not"}
_EITHER = {"abs", "negative", "relu", "sigmoid", "tanh"}  # exact, or of values that half precision resolves
_STAYS_SPARSE = {
    *("abs", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "degrees", "expm1", "fix", "floor", "log1p"),
    *("negative", "radians", "relu", "rint", "round", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc"),
}
_ACTIVATIONS = {"erf", "erfinv", "relu", "sigmoid", "softsign", "tanh"}
_ALIASES = {
    "erf": ("_npx_erf",),
    "erfinv": ("_npx_erfinv",),
    "gamma": ("_npx_gamma",),
    "gammaln": ("_npx_gammaln",),
}

_NUMPY = {
    name: f"_npi_{name}"
    for name in (
        *("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "cos", "cosh", "degrees"),
        *("exp", "expm1", "fix", "floor", "log", "log10", "log1p", "log2", "negative", "radians", "reciprocal"),
        *("rint", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc"),
    )
} | {"abs": "_npi_absolute", "relu": "_npx_relu", "sigmoid": "_npx_sigmoid"}
"""The operator of MXNet's NumPy dialect, which refuses booleans and is else the same."""


def _gradient_of(formula: Formula) -> Callable[[Node, Entries], list[NodeEntry | None]]:
    return lambda node, ograds: [formula(ograds[0], node.inputs[0], NodeEntry(node, 0, 0))]


for _name, _formula, _doc in FUNCTIONS:
    _sparse = () if _name in _NOT_SPARSE else (f"_sparse_{_name}",)
    _card: dict[str, Any] = {
        "infer_shape": same_shape,
        "gradient": _gradient_of(_formula),
        "inplace": ((0, 0),),
        "flops": 1,
        "precision": "either" if _name in _EITHER else None,
        "layout": "agnostic",
        "storage": storage_of_data if _name in _STAYS_SPARSE else None,
        "drawing": "activation" if _name in _ACTIVATIONS else None,
        "doc": _doc,
    }
    register_op(_name, aliases=(*_sparse, *_ALIASES.get(_name, ())), **_card)
    if _name in _NUMPY:
        register_op(
            _NUMPY[_name],
            inputs=("data",) if _NUMPY[_name].startswith("_npx_") else ("x",),
            aliases=("_npi_abs",) if _name == "abs" else (),
            infer_type=number_type,
            twin_of=_name,
            **{**_card, "storage": None},
        )

for _op in with_twin("relu"):
    _op.set_attr("FActivation", lambda attrs: "relu")

# -- identities ------------------------------------------------------------------------------------------------------


def the_data(head: Node, name: str, rank: Callable[[], int | None]) -> NodeEntry:
    """FPrediction of heads whose output is their data."""
    return apply("_copy", head.inputs[0], name=name)


_IDENTITY: dict[str, Any] = {
    "infer_shape": same_shape,
    "inplace": ((0, 0),),
    "FInplaceIdentity": lambda attrs: (True,),
    "flops": 0,
    "layout": "agnostic",
    "storage": storage_of_data,
    "drawing": "shape",
    "same_values": True,
}

register_op(
    "_copy",
    aliases=("identity",),
    gradient=lambda node, ograds: ograds,
    precision="either",
    FInference=lambda node: node.inputs[0],
    doc="The data itself.",
    **_IDENTITY,
)
register_op(
    "BlockGrad",
    aliases=("_sparse_stop_gradient", "stop_gradient"),
    gradient=lambda node, ograds: [None],
    prediction=the_data,
    stops_gradient=True,
    doc="The data itself; no gradient passes.",
    **_IDENTITY,
)

# -- the derivatives of log Γ ----------------------------------------------------------------------------------------


class PolygammaParams(Params):
    n: int = param(0, ge=0, le=256, doc="order of the derivative: 0 is the digamma function, 1 the trigamma function")


register_op(
    "_polygamma",
    params=PolygammaParams,
    infer_shape=same_shape,
    gradient=lambda node, ograds: [
        mul(ograds[0], apply("_polygamma", node.inputs[0], n=node.attrs.parsed.n + 1)),
    ],
    inplace=((0, 0),),
    flops=1,
    layout="agnostic",
    doc="The (n+1)-th derivative of log Γ(x): what the gradients of gamma and gammaln are made of.",
)

# -- functions with parameters ---------------------------------------------------------------------------------------


class ClipParams(Params):
    a_min: float = param(doc="smallest value")
    a_max: float = param(doc="largest value")

    def check(self) -> str | None:
        if not self.a_min <= self.a_max:  # not so of NaN either
            return f"Parameter a_min must not exceed a_max, got a_min={self.a_min:g} and a_max={self.a_max:g}"
        return None


register_op(
    "clip",
    aliases=("_npi_clip", "_sparse_clip"),
    params=ClipParams,
    infer_shape=same_shape,
    # What clipping left as it was, the bounds included, is exactly what equals its output.
    gradient=lambda node, ograds: [mul(ograds[0], apply("_equal", node.inputs[0], NodeEntry(node, 0, 0)))],
    inplace=((0, 0),),
    flops=1,
    layout="agnostic",
    storage=lambda p, ins: ins[0] if p.a_min <= 0 <= p.a_max else "default",
    precision="either",
    drawing="activation",
    FActivation=lambda attrs: "relu6" if (attrs.parsed.a_min, attrs.parsed.a_max) == (0, 6) else None,
    doc="min(max(x, a_min), a_max); the gradient passes within and at the bounds, and not at NaN, where MXNet's does. "
    "a_min > a_max is an error.",
)


class SmoothL1Params(Params):
    scalar: float = param(1.0, doc="σ: the function is quadratic where |x| < 1/σ²")
    is_int: bool = param(True, doc="changes nothing; MXNet takes it as one of its functions of an array and a number")


def _smooth_l1_gradient(node: Node, ograds: Entries):
    """dX = dY clip(σ² X, -1, 1)."""
    sigma: float = node.attrs.parsed.scalar
    slope = times(node.inputs[0], sigma * sigma)  # of huge numbers infinite, where ** is an error
    return [mul(ograds[0], apply("clip", slope, a_min=-1.0, a_max=1.0))]


register_op(
    "smooth_l1",
    aliases=("_npx_smooth_l1",),
    params=SmoothL1Params,
    infer_shape=same_shape,
    gradient=_smooth_l1_gradient,
    inplace=((0, 0),),
    flops=1,
    layout="agnostic",
    doc="(σ x)² / 2 where |x| < 1/σ², else |x| - 1/(2 σ²).",
)


class HardSigmoidParams(Params):
    alpha: float = param(0.2, doc="slope")
    beta: float = param(0.5, doc="value at 0")


def _hard_sigmoid_gradient(node: Node, ograds: Entries):
    """dX = α dY where 0 < Y < 1."""
    y = NodeEntry(node, 0, 0)
    inside = mul(apply("_greater_scalar", y, scalar=0.0), apply("_lesser_scalar", y, scalar=1.0))
    return [mul(times(ograds[0], node.attrs.parsed.alpha), inside)]


register_op(
    "hard_sigmoid",
    params=HardSigmoidParams,
    infer_shape=same_shape,
    infer_type=float_type,
    gradient=_hard_sigmoid_gradient,
    inplace=((0, 0),),
    flops=1,
    layout="agnostic",
    drawing="activation",
    doc="α x + β, clipped to [0, 1].",
)

# -- casts, and identities with a second input -----------------------------------------------------------------------


ROUNDED = "rounded to fewer digits the function is a staircase; the gradient is that of the identity"
"""Why the gradient of a cast is not its derivative."""


class CastParams(Params):
    dtype: Literal["bfloat16", "bool", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"] = param(
        doc="the result's dtype"
    )


def cast_again(node: Node) -> NodeEntry | None:
    """Merge a cast of a cast to the same dtype: FInference of operators that cast."""
    data = node.inputs[0]
    again = data.node.op is node.op and data.node.attrs.parsed.dtype == node.attrs.parsed.dtype
    return data if again else None


register_op(
    "Cast",
    aliases=("_npi_cast", "_npx_cast", "cast"),
    params=CastParams,
    infer_shape=same_shape,
    infer_type=lambda p, ins, outs: (ins, [p.dtype]),
    gradient=lambda node, ograds: [apply("_cast_like", ograds[0], node.inputs[0])],
    inplace=((0, 0),),
    same_values=True,
    flops=0,
    not_derivative=ROUNDED,
    layout="agnostic",
    drawing="shape",
    FInference=cast_again,
    doc="The data in another dtype; the gradient is cast back, through integers too. Floats are truncated to integers: "
    "256.0 is 0 in uint8, -1.0 is 255. What int32 (for int64: int64) does not hold, NaN too, is its least number, of "
    "which narrower integers have the low bits.",
)


def _cast_like_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (...), like any shape → (...)."""
    (data,), out = same_shape(p, ins[:1], outs)
    return [data, ins[1]], out


def _cast_like_types(p: NoParams, ins: Types, outs: Types):
    (like,), out = same_type(p, ins[1:], outs)
    return [ins[0], like], out


register_op(
    "_cast_like",
    inputs=("data", "like"),
    infer_shape=_cast_like_shapes,
    infer_type=_cast_like_types,
    gradient=lambda node, ograds: [apply("_cast_like", ograds[0], node.inputs[0]), None],
    FIgnoreInputs=lambda attrs: (1,),
    flops=0,
    doc="The data in the dtype of `like`.",
)

register_op(
    "_identity_with_attr_like_rhs",
    inputs=("lhs", "rhs"),
    infer_shape=same_shape,
    gradient=lambda node, ograds: [ograds[0], None],
    inplace=((0, 0),),
    FInplaceIdentity=lambda attrs: (True,),
    FIgnoreInputs=lambda attrs: (1,),
    storage=lambda p, ins: ins[1],
    flops=0,
    doc="lhs itself, which must have the shape and dtype of rhs.",
)
