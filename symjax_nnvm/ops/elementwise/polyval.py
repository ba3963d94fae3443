"""polyval of MXNet's NumPy dialect: the values of a polynomial."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.register import NoParams, Shapes, register_op
from symjax_nnvm.ir.rules.axes import completed
from symjax_nnvm.ir.rules.linear import At, linear
from symjax_nnvm.ir.types import Shape, format_shape
from symjax_nnvm.ops.elementwise.binary import mul, number_type


def _require_vector(coefficients: Shape | None) -> None:
    if coefficients is not None and len(coefficients) != 1:
        got = format_shape(coefficients)
        raise InferenceError("p has to be an 1-D array", input="p", expected="(n,)", got=got)


def _polyval_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """p (n,), x (…) → (…)."""
    coefficients, x = ins
    _require_vector(coefficients)
    values = completed(x, *outs)
    return [coefficients or (None,), values], [values]


def _of_x(node: Node, dy: NodeEntry, at: At) -> NodeEntry:
    """dX = dY P'(X)."""
    return mul(dy, apply("_npi_polyval", apply("_polynomial_derivative", at["p"]), at["x"]))


def _derivative_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """p (n,) → (n - 1,), no less than 0."""
    coefficients = ins[0]
    _require_vector(coefficients)
    if coefficients is None or coefficients[0] is None:
        return ins, [(None,)]
    return ins, [(max(0, coefficients[0] - 1),)]


register_op(
    "_npi_polyval",
    inputs=("p", "x"),
    infer_shape=_polyval_shapes,
    infer_type=number_type,
    flops="the work depends on the number of coefficients",
    doc="p[0] · xⁿ⁻¹ + p[1] · xⁿ⁻² + … + p[n-1].",
)
linear(
    "_npi_polyval",
    of="p",
    adjoint="_backward_npi_polyval",
    others={"x": _of_x},
    doc="The gradient of polyval by p: sums of ograd times powers of x.",
)
register_op(
    "_polynomial_derivative",
    inputs=("p",),
    infer_shape=_derivative_shapes,
    flops=1,
    own=True,
    doc="The coefficients of a polynomial's derivative: (n - 1) p[0], (n - 2) p[1], …, p[n-2].",
)
linear("_polynomial_derivative", of="p", adjoint="_backward_polynomial_derivative")
