"""tile and repeat: the whole array, or each element, several times."""

from __future__ import annotations

from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Axis, Params, Tuple, param
from symjax_nnvm.ir.register import Entries, Shapes, register_op
from symjax_nnvm.ir.rules.axes import known, normal_axis, size_of
from symjax_nnvm.ir.rules.costs import ARRANGES


class TileParams(Params):
    reps: Tuple = param(ge=0, doc="how often along each axis, aligned at the last axis")


def _tile_shapes(p: TileParams, ins: Shapes, outs: Shapes):
    """data (…, d) → (…, d · reps[-1]), with as many axes as the longer of the two has."""
    data, out = ins[0], outs[0]
    if data is None:
        return ins, outs
    ndim = max(len(data), len(p.reps))
    reps = (1,) * (ndim - len(p.reps)) + p.reps
    dims = (1,) * (ndim - len(data)) + tuple(data)
    if out is not None and len(out) == ndim:
        dims = [known(dim, o // r if o is not None and r else None) for dim, r, o in zip(dims, reps, out, strict=True)]
        data = tuple(dims[ndim - len(data) :])
    return [data], [tuple(size_of((dim, r)) for dim, r in zip(dims, reps, strict=True))]


def _tile_gradient(node: Node, ograds: Entries):
    """dX = dY with every axis split in (repetition, place), summed over repetitions."""
    reps = node.attrs.parsed.reps
    if 0 in reps:
        return [apply("zeros_like", node.inputs[0])]
    split = [code for r in reps for code in (r, -1, -4)]
    pieces = apply("Reshape", ograds[0], shape=(-2, *split), reverse=True)
    total = apply("sum", pieces, axis=tuple(-2 * (i + 1) for i in range(len(reps)))) if reps else ograds[0]
    return [apply("reshape_like", total, node.inputs[0])]


register_op(
    "tile",
    aliases=("_npi_tile",),
    params=TileParams,
    inputs=("data",),
    infer_shape=_tile_shapes,
    gradient=_tile_gradient,
    **ARRANGES,
    deviation=Deviation(
        "repeats along four axes or more are computed; MXNet refuses them or returns what is in its memory",
        when=lambda p: sum(times > 1 for times in p.reps) > 3,
    ),
    TExpands=True,
    doc="Repeat the whole array along each axis. Four axes or more work too; MXNet refuses them or returns "
    "what is in its memory.",
)


class RepeatParams(Params):
    repeats: int = param(ge=0, doc="how often each element appears; 0: the result is an empty vector")
    axis: Axis | None = param(None, doc="the axis to repeat along; None: of the flattened array")


def _repeat_shapes(p: RepeatParams, ins: Shapes, outs: Shapes):
    """data (…, d, …) ↔ (…, d · repeats, …); without axis (n,), n all the elements; (0,) for 0 repeats, as in MXNet."""
    data, out = ins[0], outs[0]
    if p.repeats == 0:
        return ins, [(0,)]
    if data is None:
        return ins, outs
    if p.axis is None:
        return ins, [(size_of((*data, p.repeats)),)]
    axis = normal_axis(p.axis, len(data))
    if out is not None and len(out) == len(data) and data[axis] is None and out[axis] is not None:
        data = tuple((out[axis] or 0) // p.repeats if i == axis else dim for i, dim in enumerate(data))
    return [data], [tuple(size_of((dim, p.repeats)) if i == axis else dim for i, dim in enumerate(data))]


def _repeat_gradient(node: Node, ograds: Entries):
    """dX = dY with its axis split in (place, repetition), summed over repetitions."""
    p: RepeatParams = node.attrs.parsed
    if p.repeats == 0:
        return [None]
    if p.axis is None:
        pieces = apply("Reshape", ograds[0], shape=(-1, p.repeats))
        return [apply("reshape_like", apply("sum", pieces, axis=1), node.inputs[0])]
    if p.axis >= 0:
        pieces = apply("Reshape", ograds[0], shape=(*(0,) * p.axis, -4, -1, p.repeats, -2))
        return [apply("sum", pieces, axis=p.axis + 1)]
    after = (0,) * (-p.axis - 1)
    pieces = apply("Reshape", ograds[0], shape=(-2, -1, p.repeats, -4, *after), reverse=True)
    return [apply("sum", pieces, axis=p.axis)]


register_op(
    "repeat",
    aliases=("_np_repeat",),
    params=RepeatParams,
    inputs=("data",),
    infer_shape=_repeat_shapes,
    gradient=_repeat_gradient,
    **ARRANGES,
    TExpands=True,
    doc="Repeat each element, neighbour by neighbour.",
)
