"""trace of MXNet's NumPy dialect: the sum of a diagonal of two axes."""

from __future__ import annotations

from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Shapes, register_op
from symjax_nnvm.ir.rules.axes import normal_axes
from symjax_nnvm.ir.rules.costs import per_output
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ops.elementwise.binary import number_type


class TraceParams(Params):
    offset: int = param(0, doc="which diagonal: 0 the main one, positive above, negative below")
    axis1: Axis = param(0, doc="the axis whose index grows downwards")
    axis2: Axis = param(1, doc="the axis whose index grows to the right")


def _trace_shapes(p: TraceParams, ins: Shapes, outs: Shapes):
    """data (…, r, …, c, …) → (…, …, …)."""
    data = ins[0]
    if data is None:
        return ins, outs
    axes = normal_axes((p.axis1, p.axis2), len(data), "axis1, axis2")
    return ins, [tuple(dim for i, dim in enumerate(data) if i not in axes)]


register_op(
    "_np_trace",
    params=TraceParams,
    inputs=("data",),
    infer_shape=_trace_shapes,
    infer_type=number_type,
    flops=per_output(1),
    doc="The sum of a diagonal of two axes; 0 of one outside.",
)
linear("_np_trace", of="data", adjoint="_backward_np_trace", doc="The gradient of trace: ograd along the diagonal.")
