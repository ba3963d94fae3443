"""Operators that count along an array's axes: numbers and indices in the shape of data."""

from __future__ import annotations

from symjax_nnvm.ir.params import Axes, Axis, Params, param
from symjax_nnvm.ir.register import Shapes, Types, check_number, register_op, same_shape, same_type
from symjax_nnvm.ir.rules.axes import normal_axis, replaced

# -- arange_like -----------------------------------------------------------------------------------------------------


class ArangeLikeParams(Params):
    start: float = param(0.0, doc="first value; of integer data only its whole part counts")
    step: float = param(1.0, doc="difference of neighbours; of integer data only its whole part counts")
    repeat: int = param(1, ge=1, doc="how often each value appears")
    ctx: str = param("", doc="device of an imperative call; a graph's devices are chosen where it is run")
    axis: Axis | None = param(None, doc="the axis whose length the range has; None: data's shape, counted row by row")


def _arange_like_shapes(p: ArangeLikeParams, ins: Shapes, outs: Shapes):
    """data (…, d, …) → (d,); without an axis: the shape of data."""
    if p.axis is None:
        return same_shape(p, ins, outs)
    data, out = ins[0], outs[0]
    if data is None:
        return ins, [(None,)]
    axis = normal_axis(p.axis, len(data))
    back = data if not out or data[axis] is not None else replaced(data, axis, out[0])
    return [back], [(data[axis],)]


def _arange_like_type(p: ArangeLikeParams, ins: Types, outs: Types):
    """The dtype of data."""
    inputs, outputs = same_type(p, ins, outs)
    for name in ("start", "step"):
        check_number(name, getattr(p, name), outputs[0])
    return inputs, outputs


register_op(
    "_contrib_arange_like",
    aliases=("_npx_arange_like",),
    params=ArangeLikeParams,
    infer_shape=_arange_like_shapes,
    infer_type=_arange_like_type,
    gradient=lambda node, ograds: [None],
    FIgnoreInputs=lambda attrs: (0,),
    flops=0,
    doc="Evenly spaced values, as many as one axis of data is long, or in the shape of data; in its dtype. "
    "Unlike MXNet's, start and step of a float16 range may have fractions.",
)

# -- index_array -----------------------------------------------------------------------------------------------------


class IndexArrayParams(Params):
    axes: Axes | None = param(None, doc="the axes whose indices are wanted, in this order; None: all")

    def check(self) -> str | None:
        return "axes is empty: leave it out for all axes" if self.axes == () else None

    def chosen(self, ndim: int) -> tuple[int, ...]:
        """The axes counted from the front. Raises ParamError when data has no such axis."""
        return tuple(normal_axis(axis, ndim, "axes") for axis in (range(ndim) if self.axes is None else self.axes))


def _index_array_shapes(p: IndexArrayParams, ins: Shapes, outs: Shapes):
    """data (…) ↔ (…, number of axes)."""
    data, out = ins[0], outs[0]
    if data is None:
        data = None if out is None else out[:-1]
    if data is None:
        return ins, outs
    return [data], [(*data, len(p.chosen(len(data))))]


register_op(
    "_contrib_index_array",
    params=IndexArrayParams,
    inputs=("data",),
    infer_shape=_index_array_shapes,
    infer_type=lambda p, ins, outs: (ins, ["int64"]),
    gradient=lambda node, ograds: [None],
    FIgnoreInputs=lambda attrs: (0,),
    flops=0,
    doc="The index of every element of data: (i, j, …) at [i, j, …], or some of its numbers. An axis that data does "
    "not have is an error, where MXNet counts along another.",
)
