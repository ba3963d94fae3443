"""Operators that count and number: histogram, cumsum, ravel_multi_index, unravel_index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from symjax_nnvm.errors import InferenceError, explain
from symjax_nnvm.ir.axes import normal_axis, size_of
from symjax_nnvm.ir.node import Node, NodeEntry, apply
from symjax_nnvm.ir.params import Axis, Tuple, param
from symjax_nnvm.ir.register import Shapes, Types, first_type, register_op, same_type
from symjax_nnvm.ir.types import Shape, format_shape

Entries = list[NodeEntry]

# -- histogram -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class HistogramParams:
    bin_cnt: int | None = param(None, ge=1, doc="number of bins of one width; None: the edges are an input")
    range: tuple[float, ...] | None = param(None, doc="(lowest, highest) value that is counted")

    def check(self) -> str | None:
        if (self.bin_cnt is None) != (self.range is None):
            return "bin_cnt and range should both or neither be specified"
        if self.range is not None and (len(self.range) != 2 or not self.range[0] <= self.range[1]):
            return "range should be two numbers, the lower one first"
        return None


def _histogram_shapes(p: HistogramParams, ins: Shapes, outs: Shapes):
    """data (…), bins (n + 1,) → counts (n,), edges (n + 1,)."""
    if p.bin_cnt is not None:
        return ins, [(p.bin_cnt,), (p.bin_cnt + 1,)]
    bins = ins[1] if ins[1] is not None else outs[1]
    if bins is None:
        return ins, outs
    if len(bins) != 1 or bins[0] == 1:
        expected = "a vector of at least 2 edges"
        raise InferenceError(explain("These are no bins", input="bins", expected=expected, got=format_shape(bins)))
    return [ins[0], bins], [(None if bins[0] is None else bins[0] - 1,), bins]


def _histogram_types(p: HistogramParams, ins: Types, outs: Types):
    """Data and edges of one dtype; counts are int64."""
    inputs, (edges,) = same_type(p, ins, outs[1:])
    return inputs, ["int64", edges]


register_op(
    "_histogram",
    aliases=("_npi_histogram",),
    params=HistogramParams,
    inputs=("data", "bins"),
    inputs_used=lambda p: ("data", "bins") if p.bin_cnt is None else ("data",),
    num_outputs=2,
    infer_shape=_histogram_shapes,
    infer_type=_histogram_types,
    gradient=lambda node, ograds: [None, ograds[1]][: len(node.inputs)],
    doc="Number of elements in each bin, and the bins' edges. A bin has its lower edge, the last one both; elements "
    "outside are not counted. Given edges must ascend. The gradient of data is zero, where MXNet has an error.",
)

# -- cumsum ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CumsumParams:
    axis: Axis | None = param(None, doc="the axis to add along; None: all elements in one line")
    dtype: Literal["float16", "float32", "float64", "int32", "int64", "int8"] | None = param(
        None, doc="dtype of the sums, to which elements are converted before; None: that of data, int64 for booleans"
    )


@dataclass(frozen=True, kw_only=True)
class CumsumGradientParams:
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


def _backward_cumsum_shapes(p: CumsumGradientParams, ins: Shapes, outs: Shapes):
    """ograd (…) or (size,), a (…) → (…)."""
    a = outs[0] if ins[1] is None else ins[1]
    if a is None and p.axis is not None:
        a = ins[0]
    return [_summed(p.axis, a), a], [a]


register_op(
    "_np_cumsum",
    aliases=("cumsum",),
    params=CumsumParams,
    inputs=("a",),
    infer_shape=_cumsum_shapes,
    infer_type=_cumsum_types,
    gradient=_cumsum_gradient,
    doc="Running sums along an axis. Negative axes are accepted.",
)
register_op(
    "_backward_np_cumsum",
    params=CumsumGradientParams,
    inputs=("ograd", "a"),
    infer_shape=_backward_cumsum_shapes,
    infer_type=first_type,
    gradient=lambda node, ograds: [apply("_np_cumsum", ograds[0], axis=node.attrs.parsed.axis), None],
    FIgnoreInputs=lambda attrs: (1,),
    doc="The gradient of cumsum: running sums from the end, in the shape of a.",
)

# -- ravel_multi_index, unravel_index --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RavelParams:
    shape: Tuple | None = param(None, doc="shape of the array that is indexed; its first dimension may be -1, unknown")

    def check(self) -> str | None:
        if not self.shape:
            return "Empty shape parameter: shape must have at least one dimension"
        if any(dim < 1 for dim in self.shape[1:]) or (self.shape[0] < 1 and self.shape[0] != -1):
            return f"shape must have positive dimensions, of which the first may be -1, not {self.shape}"
        return None

    @property
    def dims(self) -> Tuple:
        """The shape, which `check` has seen."""
        return self.shape or ()


def _ravel_shapes(p: RavelParams, ins: Shapes, outs: Shapes):
    """data (axes, n) ↔ (n,)."""
    data, out = ins[0], outs[0]
    if data is not None and len(data) != 2:
        expected = f"({len(p.dims)}, n)"
        raise InferenceError(explain("Indices must stand in columns", expected=expected, got=format_shape(data)))
    n = data[1] if data is not None else None
    if n is None and out:
        n = out[0]
    return [(len(p.dims), n)], [(n,)]


def _unravel_shapes(p: RavelParams, ins: Shapes, outs: Shapes):
    """data (n,), or (a, b, …) of n elements → (axes, n)."""
    data, out = ins[0], outs[0]
    if data is None:
        return ins, [(len(p.dims), out[1] if out is not None and len(out) == 2 else None)]
    return ins, [(len(p.dims), size_of(data))]


for _name, _shapes, _doc in (
    (
        "ravel_multi_index",
        _ravel_shapes,
        "The place in memory of elements whose indices are given, one in each column. Nothing is checked against the "
        "shape; fractions are cut off.",
    ),
    (
        "unravel_index",
        _unravel_shapes,
        "Indices of elements, one in each column, from their places in memory, which may stand in an array of any "
        "shape; they are taken in order. Places beyond the shape continue along its first axis; fractions are cut off. "
        "Of places that do not stand in a vector MXNet writes the indices beyond its result.",
    ),
):
    register_op(
        f"_{_name}",
        aliases=(_name,),
        params=RavelParams,
        inputs=("data",),
        infer_shape=_shapes,
        gradient=lambda node, ograds: [None],
        doc=_doc,
    )
