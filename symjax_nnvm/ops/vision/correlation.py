"""Correlation of two maps over a neighbourhood of displacements (FlowNet, Dosovitskiy et al. 2015)."""

from __future__ import annotations

from functools import partial
from math import prod

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import Entries, Shapes, float_type, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import Flops, Sizes, extended
from symjax_nnvm.ir.rules.linear import Adjoint, multilinear
from symjax_nnvm.ir.rules.named_dims import of_rank
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ir.types import Dim


class CorrelationParams(Params):
    kernel_size: int = param(1, ge=1, doc="side of the square patches that are compared; odd")
    max_displacement: int = param(1, ge=0, doc="the farthest displacement of the second map in each direction")
    stride1: int = param(1, ge=1, doc="step between the places of the first map")
    stride2: int = param(1, ge=1, doc="step between displacements")
    pad_size: int = param(0, ge=0, doc="zeros around both maps")
    is_multiply: bool = param(True, doc="compare by products; else by absolute differences")

    def check(self) -> str | None:
        if self.kernel_size % 2 == 0:
            return f"Parameter kernel_size={self.kernel_size}: kernel size should be odd number"
        return None

    @property
    def radius(self) -> int:
        """The number of displacements in each direction."""
        return self.max_displacement // self.stride2

    @property
    def width(self) -> int:
        """The number of displacements in each axis."""
        return 2 * self.radius + 1

    @property
    def border(self) -> int:
        """How far from the edge of a padded map the centres of patches stay."""
        return self.max_displacement + self.kernel_size // 2


def _count(p: CorrelationParams, size: Dim) -> Dim:
    """The number of patches along an axis of a size."""
    if size is None:
        return None
    free = size + 2 * p.pad_size - 2 * p.border
    if not is_at_most(1, free):
        raise InferenceError(
            "Neighborhood and kernel don't fit in blob",
            param="max_displacement",
            expected=f"a map of at least {2 * (p.border - p.pad_size) + 1} rows and columns",
            got=size,
        )
    return -(-free // p.stride1)


def _correlation_shapes(p: CorrelationParams, ins: Shapes, outs: Shapes):
    """data1, data2 (n, c, h, w) → (n, displacements, h', w'), and both maps padded (n, h + 2 · pad, w + 2 · pad, c)."""
    (data, _), _ = same_shape(p, ins, ())
    n, c, *sizes = of_rank(data, 4, "data should be a 4D tensor")
    n = known(n, *(out[0] for out in outs if out))
    data = (n, c, *sizes)
    counts = [_count(p, size) for size in sizes]
    padded = (n, *[None if size is None else size + 2 * p.pad_size for size in sizes], c)
    return [data] * 2, [(n, p.width**2, *counts), padded, padded][: len(outs)]


def _along_shapes(p: CorrelationParams, ins: Shapes, outs: Shapes):
    """tangent1, tangent2, data1, data2 (n, c, h, w) → (n, displacements, h', w')."""
    (data, *_), _ = same_shape(p, ins, ())
    inputs, outputs = _correlation_shapes(p, [data, None], outs)
    return inputs * 2, outputs


def _of_gradient(of: str, node: Node, ograds: Entries):
    """The gradient: products are linear in each map; of differences dX = ± Σ dY · sign(X1 - X2), which is constant but
    in dY."""
    p: CorrelationParams = node.attrs.parsed
    if p.is_multiply:
        return _CORRELATION.backward(of, node, ograds)
    _, *maps = node.inputs
    tangents = [
        ograds[0] if name == of else apply("zeros_like", data)
        for name, data in zip(_CORRELATION.adjoints, maps, strict=True)
    ]
    return [apply("_backward_Correlation_along", *tangents, *maps, **vars(p)), None, None]


# -- costs -----------------------------------------------------------------------------------------------------------


def _correlation_flops(p: CorrelationParams, ins: Sizes, outs: Sizes) -> Flops:
    """Each displacement compares patches of all channels."""
    return Flops(prod(outs[0]) * ins[0][1] * p.kernel_size**2)


def _correlation_workspace(p: CorrelationParams, ins: Sizes, outs: Sizes) -> int:
    """The result once more, its axes in another order, and both maps padded."""
    pad = 2 * p.pad_size
    return prod(outs[0]) + 2 * extended(ins[0], (2, 3), (pad, pad))


def _gradient_flops(p: CorrelationParams, ins: Sizes, outs: Sizes) -> Flops:
    return Flops(prod(ins[0]) * ins[1][1] * p.kernel_size**2)


def _gradient_workspace(p: CorrelationParams, ins: Sizes, outs: Sizes) -> int:
    """The workspace: the gradients of each displacement's patches, and both maps padded."""
    n, displacements, *counts = ins[0]
    extents = [(count - 1) * p.stride1 + 2 * p.kernel_size - 1 for count in counts]
    pad = 2 * p.pad_size
    return n * displacements * prod(extents) + 2 * extended(ins[1], (2, 3), (pad, pad))


register_op(
    "Correlation",
    params=CorrelationParams,
    inputs=("data1", "data2"),
    outputs=("output", "tmp1", "tmp2"),
    visible_outputs=1,
    infer_shape=_correlation_shapes,
    infer_type=float_type,
    flops=_correlation_flops,
    workspace=_correlation_workspace,
    drawing="convolution",
    doc="How alike patches of two maps (n, c, h, w) are, for every displacement of the second: the mean product, or "
    "the mean absolute difference, over patch and channels. Channel i of the result belongs to the displacement "
    "(i // w - r, i % w - r) · stride2, with r = max_displacement // stride2 and w = 2 r + 1. Maps of two shapes are "
    "an error, where MXNet reads beyond the smaller.",
)


def _along_gradient(node: Node, ograds: Entries):
    maps = dict(zip(_CORRELATION.adjoints, node.inputs[2:], strict=True))
    return [*(_CORRELATION.by_input(name, node, ograds[0], maps) for name in maps), None, None]


_CORRELATION = multilinear(
    "Correlation",
    of={
        f"data{i}": Adjoint(
            f"_backward_Correlation_data{i}",
            attributes={
                "flops": _gradient_flops,
                "workspace": _gradient_workspace,
                "gradient": partial(_of_gradient, f"data{i}"),
                "FIgnoreInputs": lambda attrs, i=i: (i,) if attrs.parsed.is_multiply else (),
            },
        )
        for i in (1, 2)
    },
)
register_op(
    "_backward_Correlation_along",
    params=CorrelationParams,
    inputs=("tangent1", "tangent2", "data1", "data2"),
    infer_shape=_along_shapes,
    infer_type=float_type,
    gradient=_along_gradient,
    doc="The derivative of Correlation by absolute differences, along a change of both maps.",
)
