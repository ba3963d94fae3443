"""cumsum: running sums along an axis."""

from __future__ import annotations

from typing import Literal

from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, first_type, register_op
from symjax_nnvm.ir.rules.axes import normal_axis, size_of
from symjax_nnvm.ir.rules.layout_rules import along
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Shape


class CumsumParams(Params):
    axis: Axis | None = param(None, doc="the axis to add along; None: all elements in one line")
    dtype: Literal["float16", "float32", "float64", "int32", "int64", "int8"] | None = param(
        None, doc="dtype of the sums, to which elements are converted before; None: that of data, int64 for booleans"
    )


class CumsumGradientParams(Params):
    axis: Axis | None = param(None, doc="the axis that was added along")


def _summed(axis: int | None, data: Shape | None) -> Shape | None:
    """The shape of the running sums of data."""
    if data is None:
        return None
    if axis is None:
        return (size_of(data),)
    normal_axis(axis, len(data))
    return data


def _cumsum_shapes(p: CumsumParams, ins: Shapes, outs: Shapes):
    """a (…) ↔ (…); (size,) without an axis."""
    return [ins[0] if p.axis is None else _summed(p.axis, outs[0])], [_summed(p.axis, ins[0])]


def _cumsum_types(p: CumsumParams, ins: Types, outs: Types):
    if p.dtype is not None:
        return ins, [p.dtype]
    if ins[0] is None:  # int64 may have been added up from booleans
        return [None if outs[0] == "int64" else outs[0]], outs
    return ins, ["int64" if ins[0] == "bool" else ins[0]]


def _cumsum_gradient(node: Node, ograds: Entries):
    """dX_i = sum of dY_j for j ≥ i."""
    p: CumsumParams = node.attrs.parsed
    a = node.inputs[0]
    dy = ograds[0] if p.dtype is None else apply("_cast_like", ograds[0], a)
    return [apply("_backward_np_cumsum", dy, a, axis=p.axis)]


register_op(
    "_np_cumsum",
    aliases=("cumsum",),
    params=CumsumParams,
    inputs=("a",),
    infer_shape=_cumsum_shapes,
    infer_type=_cumsum_types,
    gradient=_cumsum_gradient,
    flops=1,
    not_derivative=lambda p: (
        "fractions are cut off before, but the gradient is passed on"
        if p.dtype is not None and "int" in p.dtype
        else None
    ),
    layout=along("axis"),
    doc="Running sums along an axis. Negative axes are accepted.",
)


linear(
    "_np_cumsum",
    of="a",
    adjoint="_backward_np_cumsum",
    params=CumsumGradientParams,
    infer_type=first_type,
    doc="The gradient of cumsum: running sums from the end, in the shape of a.",
)
