"""broadcast_to, broadcast_axis, broadcast_like: repetition along axes of length 1; `_sum_like` undoes it."""

from __future__ import annotations

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import Axes, Params, Tuple, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, first_type, register_op
from symjax_nnvm.ir.rules.axes import known, normal_axis
from symjax_nnvm.ir.rules.costs import ARRANGES, MOVES, per_input
from symjax_nnvm.ir.types import Shape, format_shape


def _summed_back(node: Node, ograds: Entries):
    """dX = dY summed over the axes along which X was repeated; a model of a shape gets no gradient."""
    return [apply("_sum_like", ograds[0], node.inputs[0]), *[None] * (len(node.inputs) - 1)]


def _spread(data: Shape, target: Shape) -> Shape:
    """The broadcast of data to the target's dimensions, aligned at the end. Raises InferenceError."""
    added = len(target) - len(data)
    if added < 0:
        raise _no_broadcast(data, target)
    pairs = list(zip(data, target[added:], strict=True))
    if any(d not in (1, None) and t is not None and d != t for d, t in pairs):
        raise _no_broadcast(data, target)
    # A dimension other than 1 stays as it is where the target is open.
    return (*target[:added], *(known(t, None if d == 1 else d) for d, t in pairs))


def _no_broadcast(data: Shape, target: Shape) -> InferenceError:
    return InferenceError(
        "Data cannot be broadcast to this shape",
        expected=f"dimensions of 1, or those of {format_shape(target)}",
        got=format_shape(data),
    )


class BroadcastToParams(Params):
    shape: Tuple = param((), ge=0, doc="the shape to broadcast to; 0 keeps the dimension of data")


def broadcast_to_shapes(p: BroadcastToParams, ins: Shapes, outs: Shapes):
    """data (d, 1, …) → (d, shape[1], …)."""
    data = ins[0]
    if data is None:
        return [(None,) * len(p.shape) or None], [tuple(dim or None for dim in p.shape) or None]
    if len(data) != len(p.shape):
        raise ParamError(
            "The number of axes is wrong", param="shape", expected=f"{len(data)}, as data has", got=p.shape
        )
    return ins, [_spread(data, tuple(dim or old for dim, old in zip(p.shape, data, strict=True)))]


register_op(
    "broadcast_to",
    params=BroadcastToParams,
    infer_shape=broadcast_to_shapes,
    gradient=_summed_back,
    **ARRANGES,
    broadcasts=True,
    shape_parameters=("shape",),
    TExpands=True,
    doc="Repeat data along axes of length 1 up to a given shape.",
)


class NumpyBroadcastToParams(Params):
    shape: Tuple = param((), ge=-2, doc="the shape to broadcast to; -2 keeps the dimension of the array")


def numpy_broadcast_shapes(p: NumpyBroadcastToParams, ins: Shapes, outs: Shapes):
    """array (1, …) → (…, shape[-1], …), aligned at the last axis."""
    data = ins[0]
    if data is None:
        return ins, [tuple(dim if dim >= 0 else None for dim in p.shape)]
    added = len(p.shape) - len(data)
    if added < 0:
        raise _no_broadcast(data, p.shape)
    target = tuple(dim if dim >= 0 else data[i - added] if i >= added else None for i, dim in enumerate(p.shape))
    return ins, [_spread(data, target)]


register_op(
    "_npi_broadcast_to",
    params=NumpyBroadcastToParams,
    inputs=("array",),
    infer_shape=numpy_broadcast_shapes,
    gradient=_summed_back,
    **ARRANGES,
    broadcasts=True,
    shape_parameters=("shape",),
    TExpands=True,
    doc="Repeat an array along axes of length 1, and along new ones before it, up to a given shape.",
)


class BroadcastAxisParams(Params):
    axis: Axes = param((), doc="axes of length 1 to repeat along; negative ones count from the end")
    size: Tuple = param((), ge=0, doc="how often, for each axis")

    def check(self) -> str | None:
        if len(self.axis) != len(self.size):
            return f"Parameters axis and size need the same length, got {self.axis} and {self.size}"
        return None


def broadcast_axis_shapes(p: BroadcastAxisParams, ins: Shapes, outs: Shapes):
    """data (…, 1, …) ↔ (…, size, …)."""
    data, out = ins[0], outs[0]
    if data is None and out is None:
        return ins, outs
    ndim = len(data if data is not None else out or ())
    sizes: dict[int, int] = {}
    for place, size in zip(p.axis, p.size, strict=True):
        axis = normal_axis(place, ndim)
        if sizes.get(axis, 1) != 1 or (data is not None and data[axis] not in (1, None)):
            raise ParamError(
                "broadcast_axis repeats along axes of length 1 only",
                param="axis",
                expected="axes of length 1",
                got=f"axis {axis} of {format_shape(data)}, repeated along {p.axis}",
            )
        sizes[axis] = size
    base = data if data is not None else out or ()
    return [tuple(1 if i in sizes else dim for i, dim in enumerate(base))], [
        tuple(sizes.get(i, dim) for i, dim in enumerate(base))
    ]


register_op(
    "broadcast_axis",
    aliases=("broadcast_axes",),
    params=BroadcastAxisParams,
    infer_shape=broadcast_axis_shapes,
    gradient=_summed_back,
    **MOVES,
    broadcasts=True,
    TExpands=True,
    doc="Repeat data along some axes of length 1. Negative axes are accepted.",
)


class BroadcastLikeParams(Params):
    lhs_axes: Axes | None = param(None, doc="axes of lhs to repeat along; None, here or of rhs_axes: all")
    rhs_axes: Axes | None = param(None, doc="the axes of rhs that say how often")

    def check(self) -> str | None:
        lhs, rhs = self.lhs_axes, self.rhs_axes
        if lhs is None or rhs is None:  # one without the other counts for nothing in MXNet
            return None
        if len(lhs) != len(rhs):
            return f"Parameters lhs_axes and rhs_axes go in pairs, got {lhs} and {rhs}"
        return None if lhs else "Empty axes tuple is not allowed: lhs_axes and rhs_axes name an axis each, or are None"


def broadcast_like_shapes(p: BroadcastLikeParams, ins: Shapes, outs: Shapes):
    """lhs (…, 1, …), rhs (…, n, …) → (…, n, …). Without axes lhs may have fewer axes than rhs, as NumPy allows."""
    lhs, rhs = ins
    if p.lhs_axes is None or p.rhs_axes is None:
        rhs = rhs if rhs is not None else outs[0]
        return ins, [rhs if lhs is None or rhs is None else _spread(lhs, rhs)]
    if lhs is None or rhs is None:
        return ins, outs
    sizes = {  # of an axis that is named twice MXNet, too, takes the last
        normal_axis(i, len(lhs), "lhs_axes"): rhs[normal_axis(j, len(rhs), "rhs_axes")]
        for i, j in zip(p.lhs_axes, p.rhs_axes, strict=True)
    }
    return ins, [_spread(lhs, tuple(sizes.get(i, dim) for i, dim in enumerate(lhs)))]


register_op(
    "broadcast_like",
    params=BroadcastLikeParams,
    inputs=("lhs", "rhs"),
    infer_shape=broadcast_like_shapes,
    infer_type=first_type,
    gradient=_summed_back,
    FIgnoreInputs=lambda attrs: (1,),
    **MOVES,
    broadcasts=True,
    TExpands=True,
    doc="Repeat lhs along axes of length 1 up to the shape of rhs, or to some of its dimensions.",
)


def _sum_like_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """data, a shape that like broadcasts to → the shape of like."""
    data, like = ins[0], ins[1] if ins[1] is not None else outs[0]
    if data is not None and like is not None:
        _spread(like, data)
    return [data, like], [like]


register_op(
    "_sum_like",
    inputs=("data", "like"),
    infer_shape=_sum_like_shapes,
    infer_type=first_type,
    gradient=lambda node, ograds: [apply("broadcast_like", ograds[0], node.inputs[0]), None],
    FIgnoreInputs=lambda attrs: (1,),
    flops=per_input(1),
    doc="The sum over the axes along which `like` was broadcast: the gradient of every broadcast.",
)
