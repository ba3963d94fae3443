"""Operators whose gradient is deliberately not their derivative: straight-through estimators, gradient scaling."""

from __future__ import annotations

from symjax_nnvm.ir.node import apply
from symjax_nnvm.ir.register import register_op, same_shape
from symjax_nnvm.ir.rules.storage import storage_of_data
from symjax_nnvm.ops.elementwise.scalar import ScalarParams

for _name, _doc in (
    ("round", "The nearest integer, halves away from zero"),
    ("sign", "-1, 0 or 1"),
):
    register_op(
        f"_contrib_{_name}_ste",
        aliases=(f"_sparse__contrib_{_name}_ste",),
        infer_shape=same_shape,
        gradient=lambda node, ograds: ograds,
        inplace=((0, 0),),
        flops=1,
        not_derivative="straight through: the gradient is that of the identity",
        layout="agnostic",
        storage=storage_of_data,
        doc=f"{_doc}; the gradient passes as if it were the identity (straight-through estimator: Bengio, Léonard and "
        "Courville 2013).",
    )

register_op(
    "_contrib_gradientmultiplier",
    params=ScalarParams,
    infer_shape=same_shape,
    gradient=lambda node, ograds: [apply("_mul_scalar", ograds[0], scalar=node.attrs.parsed.scalar)],
    inplace=((0, 0),),
    flops=0,
    not_derivative="the gradient is scaled, the data are not",
    layout="agnostic",
    storage=storage_of_data,
    doc="The data themselves; their gradient is multiplied by scalar (a negative one reverses it: Ganin and Lempitsky "
    "2015).",
)
