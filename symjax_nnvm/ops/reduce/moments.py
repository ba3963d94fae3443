"""moments: mean and variance over axes."""

from __future__ import annotations

from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Axes, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, register_op, same_shape
from symjax_nnvm.ir.rules.costs import per_input
from symjax_nnvm.ops.reduce.reduction import ReduceParams, reduced_shape


class MomentsParams(Params):
    axes: Axes | None = param(None, doc="axes to reduce over; must be given")
    keepdims: bool = param(False, doc="keep the reduced axes, with length 1")

    def check(self) -> str | None:
        if not self.axes:
            return (
                "Empty axes is not supported, if you would like to do global moments, please pass all axes to axes "
                "argument"
            )
        return None

    @property
    def reduction(self) -> ReduceParams:
        """The reduction that each moment is a mean of."""
        return ReduceParams(axis=self.axes, keepdims=self.keepdims)


def _moments_shapes(p: MomentsParams, ins: Shapes, outs: Shapes):
    """data (…, d, …) → mean (…, …), variance (…, …)."""
    data = ins[0]
    if data is None:
        _, outputs = same_shape(p, [], outs)
        return ins, outputs
    return ins, [reduced_shape(p.reduction, data)] * 2


def _moments_gradient(node: Node, ograds: Entries):
    """dX = (dM + 2 (X - M) dV) / n, both repeated over the reduced axes."""
    p: MomentsParams = node.attrs.parsed
    data, settings = node.inputs[0], vars(p.reduction)
    dmean, dvariance = (apply("_backward_mean", ograd, data, **settings) for ograd in ograds)
    mean = apply("_backward_sum", NodeEntry(node, 0, 0), data, **settings)
    difference = apply("_mul_scalar", apply("elemwise_sub", data, mean), scalar=2.0)
    return [apply("elemwise_add", dmean, apply("elemwise_mul", difference, dvariance))]


register_op(
    "moments",
    params=MomentsParams,
    inputs=("data",),
    num_outputs=2,
    infer_shape=_moments_shapes,
    gradient=_moments_gradient,
    flops=per_input(4),
    doc="Mean and biased variance over axes; of integers both are truncated towards 0.",
)
