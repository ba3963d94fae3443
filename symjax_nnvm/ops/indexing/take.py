"""take, batch_take, pick, one_hot: elements looked up by one index each."""

from __future__ import annotations

from math import prod
from typing import Literal

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.node import apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import NoParams, Shapes, Types, check_number, first_type, register_op
from symjax_nnvm.ir.rules.axes import known, normal_axis, replaced
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.rules.storage import Storage
from symjax_nnvm.ir.types import Shape, format_shape

NumberType = Literal["bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "uint8"]


class OneHotParams(Params):
    depth: int = param(ge=0, doc="length of the new last axis")
    on_value: float = param(1.0, doc="the value where the index is")
    off_value: float = param(0.0, doc="the value everywhere else")
    dtype: NumberType = param("float32", doc="dtype of the result")


def _one_hot_type(p: OneHotParams, ins: Types, outs: Types):
    """Indices of any dtype; the result's is a parameter."""
    for name in ("on_value", "off_value"):
        check_number(name, getattr(p, name), p.dtype)
    return ins, [p.dtype]


def _one_hot_shapes(p: OneHotParams, ins: Shapes, outs: Shapes):
    """indices (…) ↔ (…, depth)."""
    indices, out = ins[0], outs[0]
    if indices is None and out is not None:
        indices = out[:-1]
    return [indices], [None if indices is None else (*indices, p.depth)]


register_op(
    "one_hot",
    aliases=("_npx_one_hot",),
    params=OneHotParams,
    inputs=("indices",),
    infer_shape=_one_hot_shapes,
    infer_type=_one_hot_type,
    gradient=lambda node, ograds: [None],
    flops=0,
    numbers=(0, lambda p, shapes: p.depth),
    TExpands=True,
    doc="One value at each index, another elsewhere; indices outside mark nothing.",
)


class PickParams(Params):
    axis: Axis | None = param(-1, doc="the axis to pick from")
    keepdims: bool = param(False, doc="keep the axis, with length 1")
    mode: Literal["clip", "wrap"] = param("clip", doc="an index outside means the nearest, or the rest modulo d")

    def check(self) -> str | None:
        return "axis=None is not supported by pick: name an axis" if self.axis is None else None


def _pick_shapes(p: PickParams, ins: Shapes, outs: Shapes):
    """data (…, d, …), index (…, …) or (…, 1, …) → (…, …), or (…, 1, …) with keepdims. Of one axis a number picks."""
    data, index = ins
    if data is None:
        return ins, outs
    axis = normal_axis(-1 if p.axis is None else p.axis, len(data))
    without = replaced(data, axis) or (1,)
    keepdims_shape = replaced(data, axis, 1)
    if index is not None and len(index) == len(keepdims_shape) != len(without):
        index, without = keepdims_shape, replaced(_merged(keepdims_shape, index), axis) or (1,)
    elif index or len(data) > 1:
        index = without
    return [data, index], [keepdims_shape if p.keepdims else without]


def _merged(a: Shape, b: Shape) -> Shape:
    return tuple(known(x, y) for x, y in zip(a, b, strict=True))


def _along(p: PickParams, shapes: list[tuple[int, ...]]) -> int | None:
    if p.mode == "wrap":
        return None
    return prod(shapes[0]) if p.axis is None else shapes[0][p.axis]


register_op(
    "pick",
    aliases=("_npx_pick", "choose_element_0index"),
    params=PickParams,
    inputs=("data", "index"),
    infer_shape=_pick_shapes,
    infer_type=first_type,
    flops=0,
    numbers=(1, _along),
    doc="One element along an axis, chosen by an array of indices.",
)


linear(
    "pick",
    of="data",
    adjoint="_backward_pick",
    doc="The gradient of pick: ograd where it was picked from data, 0 elsewhere.",
)


def _batch_take_shapes(p: NoParams, ins: Shapes, outs: Shapes):
    """a (n, d), indices (n,) → (n,)."""
    a, indices = ins
    if a is not None and len(a) != 2:
        raise InferenceError("The data must be a matrix", input="a", expected="2 axes", got=format_shape(a))
    rows = known(*(shape[0] for shape in (a, indices, outs[0]) if shape))
    return [(rows, None), (rows,)], [(rows,)]


register_op(
    "batch_take",
    inputs=("a", "indices"),
    infer_shape=_batch_take_shapes,
    infer_type=lambda p, ins, outs: ([ins[0] or outs[0], "int32"], [outs[0] or ins[0]]),
    gradient=lambda node, ograds: [apply("_backward_pick", ograds[0], *node.inputs), None],
    flops=0,
    deviation=Deviation("has a gradient; MXNet refuses to differentiate it", "training"),
    doc="(deprecated, see pick) One element of each row. Unlike MXNet's it has a gradient.",
)


class TakeParams(Params):
    axis: Axis = param(0, doc="the axis to take from; negative counts from the end")
    mode: Literal["clip", "raise", "wrap"] = param(
        "clip", doc="the meaning of an index outside: the nearest, or the rest modulo d; `raise` acts as `clip`"
    )


def _take_storage(p: TakeParams, ins: Storage) -> str:
    return "csr" if tuple(ins) == ("csr", "default") and p.axis == 0 and p.mode != "raise" else "default"


def _take_shapes(p: TakeParams, ins: Shapes, outs: Shapes):
    """a (…, d, …), indices (i…) → (…, i…, …)."""
    a, indices = ins
    if a is None or indices is None:
        return ins, outs
    return ins, [replaced(a, normal_axis(p.axis, len(a)), *indices)]


register_op(
    "take",
    aliases=("_npi_take",),
    params=TakeParams,
    inputs=("a", "indices"),
    infer_shape=_take_shapes,
    infer_type=first_type,
    storage=_take_storage,
    flops=0,
    deviation=Deviation(
        "indices out of range are clipped; MXNet stops with an error", when=lambda p: p.mode == "raise"
    ),
    doc="Slices along an axis by number. Numbers outside are clipped under mode `raise`, too, where MXNet has an "
    "error: a compiled program cannot stop.",
)


linear(
    "take",
    of="a",
    adjoint="_backward_take",
    doc="The gradient of take: slices of ograd added up by number, in the shape of a.",
)
