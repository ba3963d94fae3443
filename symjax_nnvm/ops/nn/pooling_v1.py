"""Pooling_v1: the first version of Pooling, which pads maxima with zeros and shares their gradients among ties."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.costs import Flops, Sizes, WorkspaceRule, extended
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import format_shape
from symjax_nnvm.ops.nn.pooling import PoolingParams, pooling_flops, pooling_gradient_flops, pooling_shapes


class PoolingV1Params(Params):
    kernel: Tuple = param((), ge=1, doc="window: two or three spatial sizes; not used by global_pool")
    pool_type: Literal["avg", "max", "sum"] = param("max", doc="what is computed from each window")
    global_pool: bool = param(False, doc="one window: all of each channel; kernel, stride and pad are not used")
    pooling_convention: Literal["full", "valid"] = param(
        "valid", doc="valid: windows inside the padded data; full: also one that sticks out at the end"
    )
    stride: Tuple = param((), ge=1, doc="step of the window in each spatial axis; (): 1")
    pad: Tuple = param((), ge=0, doc="zeros added on both sides of each spatial axis; (): none")

    def check(self) -> str | None:
        rank = len(self.kernel)
        if not self.global_pool and rank not in (2, 3):
            return f"Parameter kernel={self.kernel}: {rank}D pooling not supported, expected 2 or 3 sizes"
        return self.windows.check_windows()

    @property
    def windows(self) -> PoolingParams:
        """Pooling with the same windows."""
        return PoolingParams(**vars(self))

    @property
    def scale(self) -> float:
        """The factor of sums. A mean is over the whole window, with its elements outside the data."""
        return 1 / math.prod(self.kernel) if self.pool_type == "avg" and not self.global_pool else 1.0

    @property
    def sums(self) -> PoolingParams:
        """Pooling that gives sums, or means of the whole, which `scale` makes means."""
        return self.windows if self.global_pool else replace(self.windows, pool_type="sum")


def _flops(p: PoolingV1Params, ins: Sizes, outs: Sizes) -> Flops:
    return pooling_flops(p.windows, ins, outs)


def _gradient_flops(p: PoolingV1Params, ins: Sizes, outs: Sizes) -> Flops:
    return pooling_gradient_flops(p.windows, ins, outs)


def _pooling_shapes(p: PoolingV1Params, ins: Shapes, outs: Shapes):
    """data (n, c, …d) → (n, c, …), one number for each window."""
    for shape in (*ins, *outs):
        if shape is not None and not 4 <= len(shape) <= 5:
            problem = "Pooling: Input data should be 4D in (batch, channel, y, x) Or 5D in (batch, channel, d, y, x)"
            raise InferenceError(problem, expected="4 or 5 axes", got=format_shape(shape))
    return pooling_shapes(p.windows, ins, outs)


def _pick_shapes(p: PoolingV1Params, ins: Shapes, outs: Shapes):
    """value and data (n, c, …d), output of the pooled shape → of the pooled shape."""
    value, data, output = ins
    (data, *_), _ = same_shape(p, [data, value], [])
    (data,), (pooled,) = _pooling_shapes(p, [data], [outs[0] if output is None else output])
    return [data, data, pooled], [pooled]


def _pooling_gradient(node: Node, ograds: Entries):
    """Sums and means spread dY over their windows; a maximum gives it to every element that attains it."""
    p: PoolingV1Params = node.attrs.parsed
    (dy,), (data,) = ograds, node.inputs
    if p.pool_type == "max":
        return [apply("_backward_Pooling_v1_max", dy, data, NodeEntry(node, 0, 0), **vars(p))]
    grad = apply("_backward_Pooling_sum", dy, data, **vars(p.sums))
    return [grad if p.scale == 1 else apply("_mul_scalar", grad, scalar=p.scale)]


def _padded(number: int) -> WorkspaceRule:
    """Data, the input of a number, with all of their padding."""

    def workspace(p: PoolingV1Params, ins: Sizes, outs: Sizes) -> int:
        pads = [] if p.global_pool else [2 * pad for pad in p.pad]
        return extended(ins[number], range(2, 2 + len(pads)), pads)

    return workspace


register_op(
    "Pooling_v1",
    samples="each",
    params=PoolingV1Params,
    inputs=("data",),
    infer_shape=_pooling_shapes,
    infer_type=float_type,
    gradient=_pooling_gradient,
    flops=_flops,
    workspace=_padded(0),
    precision="either",
    drawing="pooling",
    doc="(deprecated; use Pooling) The maximum, sum or mean of every window of two or three spatial axes. Padding "
    "counts: as zeros in maxima, as elements in means; so does, in means, elements of a window past the padding. "
    "Every element that ties for a maximum receives its gradient.",
)
register_op(
    "_backward_Pooling_v1_pick",
    params=PoolingV1Params,
    inputs=("value", "data", "output"),
    infer_shape=_pick_shapes,
    infer_type=float_type,
    flops=_gradient_flops,
    workspace=_padded(1),
    doc="The sum of `value` where data attains each window's maximum: the transpose of `_backward_Pooling_v1_max`.",
)
linear(
    "_backward_Pooling_v1_pick",
    of="value",
    adjoint="_backward_Pooling_v1_max",
    flops=_gradient_flops,
    workspace=_padded(1),
    inputs=("ograd", "data", "output"),
    doc="Gradient of maximum Pooling_v1: every element that attains a window's maximum receives its head gradient.",
)
