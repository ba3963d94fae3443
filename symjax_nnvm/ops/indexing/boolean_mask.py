"""boolean_mask: the slices of an array that a mask keeps. How many there are depends on values."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Shapes, first_type, register_op
from symjax_nnvm.ir.rules.axes import known, normal_axis, replaced
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import format_shape


class BooleanMaskParams(Params):
    axis: Axis = param(0, doc="the axis whose slices are kept or dropped; negative counts from the end")


def boolean_mask_shapes(p: BooleanMaskParams, ins: Shapes, outs: Shapes):
    """data (…, n, …), index (n,) → (…, ?, …)."""
    data, index = ins
    if index is not None and len(index) != 1:
        raise InferenceError("A mask must have one axis", input="index", expected="(n,)", got=format_shape(index))
    mask_length = index[0] if index else None
    if data is None:
        return [None, (mask_length,)], outs
    axis = normal_axis(p.axis, len(data))
    length = known(data[axis], mask_length)
    return [replaced(data, axis, length), (length,)], [replaced(data, axis, None)]


register_op(
    "_contrib_boolean_mask",
    aliases=("_npi_boolean_mask",),
    params=BooleanMaskParams,
    inputs=("data", "index"),
    infer_shape=boolean_mask_shapes,
    infer_type=first_type,
    TDataDependentShape=True,
    flops="how many rows are taken depends on values",
    doc="The slices of data along an axis whose index is not 0. How many remain depends on values, and XLA compiles "
    "for shapes, so it runs where the mask is known: outside jax.jit, or closed over by what is jitted. Unlike MXNet's "
    "it takes any axis.",
)
linear(
    "_contrib_boolean_mask",
    of="data",
    adjoint="_backward_boolean_mask",
    doc="The gradient of boolean_mask: ograd where slices of data were kept, 0 where they were dropped.",
)
