"""Small functions of MXNet's contrib module: a quadratic, division by the root of a dimension, a comparison."""

from __future__ import annotations

from math import prod

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, Types, register_op, same_shape, same_type
from symjax_nnvm.ir.rules.costs import Flops
from symjax_nnvm.ops.elementwise.binary import mul

# -- quadratic -------------------------------------------------------------------------------------------------------


class QuadraticParams(Params):
    a: float = param(0.0, doc="coefficient of data²")
    b: float = param(0.0, doc="coefficient of data")
    c: float = param(0.0, doc="summand")


def _quadratic_gradient(node: Node, ograds: Entries):
    """dX = dY (2 a X + b)."""
    p: QuadraticParams = node.attrs.parsed
    slope = apply("_plus_scalar", apply("_mul_scalar", node.inputs[0], scalar=2 * p.a), scalar=p.b)
    return [mul(ograds[0], slope)]


register_op(
    "_contrib_quadratic",
    params=QuadraticParams,
    inputs=("data",),
    infer_shape=same_shape,
    gradient=_quadratic_gradient,
    inplace=((0, 0),),
    flops=lambda p, ins, outs: Flops(2 * prod(outs[0])),
    layout="agnostic",
    storage=lambda p, ins: ins[0] if p.c == 0 and ins[0] == "csr" else "default",
    doc="a·data² + b·data + c; of integers it is calculated in float32 and truncated.",
)

# -- division by the root of a dimension -----------------------------------------------------------------------------


def _div_sqrt_dim_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data (…, d) ↔ the same shape."""
    if ins[0] == ():
        raise InferenceError("The data have no last axis", expected="data with at least one axis", got="()")
    return same_shape(p, ins, outs)


register_op(
    "_contrib_div_sqrt_dim",
    infer_shape=_div_sqrt_dim_shapes,
    gradient=lambda node, ograds: [apply("_contrib_div_sqrt_dim", ograds[0])],
    inplace=((0, 0),),
    flops=1,
    precision="either",
    doc="data / √d, d the length of the last axis: the scaling of attention (Vaswani and others 2017).",
)

# -- allclose --------------------------------------------------------------------------------------------------------


class AllCloseParams(Params):
    rtol: float = param(1e-5, doc="bound on the difference, relative to |b|")
    atol: float = param(1e-8, doc="bound on the difference, added to the relative one")
    equal_nan: bool = param(True, doc="whether NaN is close to NaN")


def _all_close_shapes(p: AllCloseParams, ins: Shapes, outs: Shapes):
    """a (…), b of the same shape → a number: no axes."""
    inputs, _ = same_shape(p, ins, [])
    return inputs, [()]


def _all_close_type(p: AllCloseParams, ins: Types, outs: Types):
    inputs, _ = same_type(p, ins, [])
    return inputs, ["uint8"]


register_op(
    "_contrib_allclose",
    params=AllCloseParams,
    inputs=("a", "b"),
    infer_shape=_all_close_shapes,
    infer_type=_all_close_type,
    flops="a comparison of whole arrays, in tests",
    doc="1 when |a - b| ≤ atol + rtol·|b| everywhere, else 0: an array without axes, of dtype uint8. Anything finite "
    "is close to an infinite b, as in MXNet. Unlike MXNet's, which reads outside, it requires equal shapes.",
)
