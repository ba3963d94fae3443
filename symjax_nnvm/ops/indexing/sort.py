"""Operators that order elements: sort, argsort, topk, and taking along an axis by the indices they give."""

from __future__ import annotations

from math import prod
from typing import Any, Literal

from symjax_nnvm.errors import ParamError
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Axis, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, Types, first_type, register_op
from symjax_nnvm.ir.rules.axes import normal_axis, replaced, size_of
from symjax_nnvm.ir.rules.costs import Flops, Sizes, as_much_as
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.rules.size_symbols import is_at_most
from symjax_nnvm.ir.types import Shape

IndexType = Literal["float16", "float32", "float64", "int32", "int64", "uint8"]

_AXIS = "the axis to order; None: all elements in one line"
_INDEX_TYPE = "dtype of the indices"


def _line(axis: int | None, data: Shape) -> tuple[Shape, int]:
    """(the array whose lines are ordered, its axis): a vector of all elements when no axis is named."""
    if axis is None:
        return (size_of(data),), 0
    return data, normal_axis(axis, len(data))


def _to_data(dy: NodeEntry, indices: NodeEntry, data: NodeEntry, axis: int | None) -> NodeEntry:
    """Gradient of ordered elements, put back where they came from; 0 elsewhere."""
    line = apply("Reshape", data, shape=(-1,)) if axis is None else data
    gradient = apply("_backward_take_along_axis", dy, indices, line, axis=axis or 0, distinct=True)
    return apply("reshape_like", gradient, data) if axis is None else gradient


# -- sort, argsort ---------------------------------------------------------------------------------------------------


class SortParams(Params):
    axis: Axis | None = param(-1, doc=_AXIS)
    is_ascend: bool = param(True, doc="smallest first; else largest first")


class ArgsortParams(SortParams):
    dtype: IndexType = param("float32", doc=_INDEX_TYPE)


def _sort_shapes(p: SortParams | ArgsortParams, ins: Shapes, outs: Shapes):
    """data (…) ↔ (…) for each output; (size,) without an axis."""
    model = next((shape for shape in (*ins, *outs) if shape is not None), None)
    if p.axis is not None:
        shape = None if model is None else _line(p.axis, model)[0]
        return [shape], [shape] * len(outs)
    return ins, [None if ins[0] is None else _line(None, ins[0])[0]] * len(outs)


def sort_flops(p: Any, ins: Sizes, outs: Sizes) -> Flops:
    """n log n comparisons; of a draw without inputs, of what it draws."""
    count = prod((ins or outs)[0])
    return Flops(0, count * max(count.bit_length(), 1))


register_op(
    "sort",
    aliases=("_npi_sort",),
    params=SortParams,
    num_outputs=2,
    visible_outputs=1,
    infer_shape=_sort_shapes,
    infer_type=lambda p, ins, outs: ([ins[0] or outs[0]], [outs[0] or ins[0], "int32"]),
    gradient=lambda node, ograds: [_to_data(ograds[0], NodeEntry(node, 1, 0), node.inputs[0], node.attrs.parsed.axis)],
    flops=sort_flops,
    workspace=as_much_as("input", 2),
    doc="Elements in order; equal elements keep their order, which the gradient follows (in MXNet only in lines of up "
    "to 16 values). Hidden output: where they were. Unlike MXNet's it has a gradient also when no axis is given, and "
    "takes float16. The order of NaN is undefined.",
)
register_op(
    "argsort",
    aliases=("_npi_argsort",),
    params=ArgsortParams,
    infer_shape=_sort_shapes,
    infer_type=lambda p, ins, outs: (ins, [p.dtype]),
    gradient=lambda node, ograds: [None],
    flops=sort_flops,
    workspace=as_much_as("input", 2),
    doc="Where the elements of the sorted array are; equal ones keep their order at any length. MXNet's do so "
    "in lines of up to 16 values; in longer ones their order is arbitrary. Unlike MXNet's it takes float16. The order "
    "of NaN is undefined.",
)

# -- topk ------------------------------------------------------------------------------------------------------------


class TopKParams(Params):
    axis: Axis | None = param(-1, doc=_AXIS)
    k: int = param(1, doc="number of elements of each line; less than 1: all of them")
    ret_typ: Literal["both", "indices", "mask", "value"] = param(
        "indices", doc="values, indices, both, or 1 where an element is among the first k and 0 elsewhere"
    )
    is_ascend: bool = param(False, doc="the smallest, smallest first; else the largest, largest first")
    dtype: IndexType = param("float32", doc=_INDEX_TYPE)


def chosen(p: TopKParams, length: int) -> int:
    """How many elements of a line are chosen. Raises ParamError when there are fewer."""
    if not is_at_most(p.k, length):
        raise ParamError("k must not exceed the axis", param="k", expected=f"k ≤ {length}", got=p.k)
    return p.k if p.k > 0 else length


def _topk_shapes(p: TopKParams, ins: Shapes, outs: Shapes):
    """data (…, d, …) → (…, k, …) for each output, (k,) without an axis; a mask has the shape of data."""
    data = ins[0]
    if data is None:
        return (outs, outs) if p.ret_typ == "mask" else (ins, outs)
    line, axis = _line(p.axis, data)
    length = line[axis]
    number = (p.k if p.k > 0 else None) if length is None else chosen(p, length)
    return ins, [data if p.ret_typ == "mask" else replaced(line, axis, number)] * len(outs)


def _topk_types(p: TopKParams, ins: Types, outs: Types):
    """Values and masks have the dtype of data, indices their own, hidden indices int32."""
    dtype = outs[0] or ins[0]
    match p.ret_typ:
        case "indices":
            return ins, [p.dtype]
        case "mask":
            return [dtype], [dtype]
        case "value":
            return [dtype], [dtype, "int32"]
        case "both":
            return [dtype], [dtype, p.dtype]


def _topk_gradient(node: Node, ograds: Entries):
    """dX = dY where the elements came from, 0 elsewhere; indices and masks pass nothing on."""
    p: TopKParams = node.attrs.parsed
    if p.ret_typ in ("indices", "mask"):
        return [None]
    indices = NodeEntry(node, 1, 0)
    if p.ret_typ == "both" and p.dtype not in ("int32", "int64"):
        # Visible indices may be of a dtype that does not hold them all. XLA finds the ordering twice and runs one.
        indices = apply("topk", node.inputs[0], **{**vars(p), "ret_typ": "indices", "dtype": "int32"})
    return [_to_data(ograds[0], indices, node.inputs[0], p.axis)]


register_op(
    "topk",
    aliases=("_npx_topk",),
    params=TopKParams,
    num_outputs=lambda p: 2 if p.ret_typ in ("both", "value") else 1,
    visible_outputs=lambda p: 2 if p.ret_typ == "both" else 1,
    infer_shape=_topk_shapes,
    infer_type=_topk_types,
    gradient=_topk_gradient,
    flops=sort_flops,
    workspace=as_much_as("input", 2),
    doc="The k largest or smallest elements along an axis, in order; of equal ones the first, at any length. In "
    "MXNet that is so in lines of up to 16 values; in longer ones equal elements are chosen arbitrarily. Hidden output "
    "of values: where they were. The order of NaN is undefined.",
)

# -- taking along an axis --------------------------------------------------------------------------------------------


class AlongAxisParams(Params):
    axis: Axis = param(-1, doc="the axis to take from")
    distinct: bool = param(False, doc="the indices of each line are known to be distinct")


def _along_shapes(p: AlongAxisParams, ins: Shapes, outs: Shapes):
    """data (…, d, …), indices (…, k, …) ↔ (…, k, …)."""
    data, indices = ins
    shape = indices if indices is not None else outs[0]
    if data is None or shape is None or len(shape) != len(data):
        return [data, shape], [shape]
    axis = normal_axis(p.axis, len(data))
    shape = replaced(data, axis, shape[axis])
    return [data, shape], [shape]


register_op(
    "_take_along_axis",
    params=AlongAxisParams,
    inputs=("data", "indices"),
    infer_shape=_along_shapes,
    infer_type=first_type,
    flops=0,
    doc="Elements of each line along an axis, by number; the numbers must be inside.",
)


linear(
    "_take_along_axis",
    of="data",
    adjoint="_backward_take_along_axis",
    inputs=("ograd", "indices", "data"),
    doc="The gradient of _take_along_axis: ograd added up by number, in the shape of data.",
)
