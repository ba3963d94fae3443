"""Operators that cut a piece out of an array, reverse it or put a border around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import Axes, Axis, Params, Tuple, param
from symjax_nnvm.ir.register import Entries, NoParams, Shapes, first_type, register_op, same_shape
from symjax_nnvm.ir.rules.axes import normal_axis, replaced
from symjax_nnvm.ir.rules.costs import ARRANGES, MOVES
from symjax_nnvm.ir.rules.layout_rules import along
from symjax_nnvm.ir.rules.linear import linear, self_adjoint
from symjax_nnvm.ir.rules.samples import across
from symjax_nnvm.ir.rules.size_symbols import is_at_most, is_open
from symjax_nnvm.ir.rules.storage import Storage
from symjax_nnvm.ir.types import Dim, Shape, format_shape

# -- slice_axis, slice -----------------------------------------------------------------------------------------------


class SliceAxisParams(Params):
    axis: Axis = param(doc="the axis to cut; negative counts from the end")
    begin: int = param(doc="first index kept; negative counts from the end")
    end: int | None = param(doc="the index after the last kept; negative counts from the end, None: to the end")


def axis_piece(p: SliceAxisParams, length: int) -> slice:
    """The piece kept of an axis of this length. Raises ParamError when it is empty or reaches outside."""
    begin = p.begin + length * (p.begin < 0)
    end = length if p.end is None else p.end + length * (p.end < 0)
    if not (is_at_most(0, begin) and is_at_most(begin + 1, end) and is_at_most(end, length)):
        raise ParamError(
            f"Invalid begin and end for an axis of length {length}",
            param="begin, end",
            expected=f"0 ≤ begin < end ≤ {length}, negative ones counted from the end",
            got=f"begin={p.begin}, end={p.end}",
        )
    return slice(begin, end, 1)


def _slice_axis_shapes(p: SliceAxisParams, ins: Shapes, outs: Shapes):
    """data (…, d, …) → (…, end - begin, …); the other axes are known from either side."""
    data, out = ins[0], outs[0]
    if data is None and out is None:
        return ins, outs
    shape = data if data is not None else out or ()
    axis = normal_axis(p.axis, len(shape))
    length = None if data is None or data[axis] is None else data[axis]
    new_length = None
    if length is not None:
        piece = axis_piece(p, length)
        new_length = piece.stop - piece.start
    back = None if out is None or len(out) != len(shape) else replaced(out, axis, length)
    return [back], [replaced(shape, axis, new_length)]


class SliceParams(Params):
    begin: tuple[int | None, ...] = param(doc="first index kept of each leading axis; None: from its end")
    end: tuple[int | None, ...] = param(doc="the index after the last kept; None: to its end")
    step: tuple[int | None, ...] = param((), doc="distance of indices kept, negative to go backwards; None: 1")

    def check(self) -> str | None:
        if len(self.begin) != len(self.end) or len(self.step) not in (0, len(self.begin)):
            return f"begin, end and step need the same length, got {self.begin}, {self.end} and {self.step}"
        if 0 in self.step:
            return "slice op step cannot be 0"
        return None

    @property
    def steps(self) -> tuple[int, ...]:
        """A step for every entry of begin."""
        return tuple(step or 1 for step in self.step) or (1,) * len(self.begin)

    def is_whole(self, axis: int) -> bool:
        """Whether an axis of any length keeps its length."""
        if axis >= len(self.begin):
            return True
        first = (None, 0) if self.steps[axis] > 0 else (None, -1)
        return self.begin[axis] in first and self.end[axis] is None and abs(self.steps[axis]) == 1


def kept_indices(p: SliceParams, axis: int, length: int) -> range:
    """The indices kept of an axis of this length; range(0) when there are none, as in MXNet."""
    if axis >= len(p.begin):
        return range(length)
    return range(length)[slice(p.begin[axis], p.end[axis], p.steps[axis])] or range(0)


def kept_length(p: SliceParams, axis: int, length: Dim) -> Dim:
    """How many indices are kept of an axis of this length; None where that is unknown: of an open one that is cut, the
    engine knows."""
    if p.is_whole(axis):
        return length
    return None if length is None or is_open(length) else len(kept_indices(p, axis, length))


def _slice_shapes(p: SliceParams, ins: Shapes, outs: Shapes):
    """data (d0, d1, …) → (kept of d0, kept of d1, …); axes that are not cut are known from either side."""
    data, out = ins[0], outs[0]
    if data is None and out is None:
        return ins, outs
    shape = data if data is not None else (None,) * len(out or ())
    if len(p.begin) > len(shape):
        raise ParamError("Slice of too many axes", param="begin", expected=f"at most {len(shape)} axes", got=p.begin)
    back = None if out is None else tuple(dim if p.is_whole(i) else None for i, dim in enumerate(out))
    return [back], [tuple(kept_length(p, i, dim) for i, dim in enumerate(shape))]


def _slice_storage(p: SliceParams, ins: Storage) -> str:
    return "csr" if ins[0] == "csr" and not p.step else "default"


for _name, _aliases, _params, _shapes, _doc in (
    ("slice_axis", (), SliceAxisParams, _slice_axis_shapes, "A piece of one axis."),
    (
        "slice",
        ("_npi_slice", "_npx_slice", "_sparse_slice", "crop"),
        SliceParams,
        _slice_shapes,
        "A piece of the leading axes, with steps; as Python slices do.",
    ),
):
    register_op(
        _name,
        aliases=_aliases,
        params=_params,
        infer_shape=_shapes,
        **MOVES,
        layout=along("axis") if _name == "slice_axis" else None,
        samples=across("axis") if _name == "slice_axis" else None,
        storage=_slice_storage if _name == "slice" else None,
        doc=_doc,
    )
    linear(
        _name,
        of="data",
        adjoint=f"_backward_{_name}",
        doc=f"The gradient of {_name}: ograd where it was cut out of data, 0 elsewhere.",
    )

# -- slice_like ------------------------------------------------------------------------------------------------------


class SliceLikeParams(Params):
    axes: Axes = param((), doc="the axes to cut, negative ones counted from the end of data; (): all")


def cut_shape(p: SliceLikeParams, data: Shape, like: Shape) -> Shape:
    """The shape of data with the lengths of like on the chosen axes: an axis is the same one, from the front, of both.

    Raises ParamError when one of them has no such axis, InferenceError when it is longer in like.
    """
    if not p.axes and len(data) != len(like):
        raise InferenceError(
            "Shapes of different rank; by default slice_like cuts all axes",
            input="shape_like",
            expected=f"{len(data)} axes",
            got=format_shape(like),
            fix="Pass axes=.",
        )
    dims = list(data)
    for place in p.axes or range(len(data)):
        axis = normal_axis(place, len(data), "axes")
        if axis >= len(like):
            raise ParamError(
                f"shape_like has no axis {axis}",
                param="axes",
                expected=f"axes of data, counted from its front, that an array of {len(like)} axes has",
                got=p.axes,
                fix="Negative axes are counted from the end of data.",
            )
        dim, length = data[axis], like[axis]
        if length is not None and dim is not None and not is_at_most(length, dim):
            raise InferenceError(
                f"Slice axis {axis} is longer in shape_like than in data",
                input="shape_like",
                expected=f"at most {dim}",
                got=length,
            )
        dims[axis] = length
    return tuple(dims)


def _slice_like_shapes(p: SliceLikeParams, ins: Shapes, outs: Shapes):
    """data (d0, d1, …), shape_like (s0, s1, …) → (s0, s1, …) on the chosen axes."""
    data, like = ins
    if data is None or like is None:
        return ins, outs
    return ins, [cut_shape(p, data, like)]


register_op(
    "slice_like",
    params=SliceLikeParams,
    inputs=("data", "shape_like"),
    infer_shape=_slice_like_shapes,
    infer_type=first_type,
    FIgnoreInputs=lambda attrs: (1,),
    **MOVES,
    doc="The leading piece of data that has the lengths of shape_like, on all axes or on some.",
)
linear(
    "slice_like",
    of="data",
    adjoint="_backward_slice_like",
    inputs=("ograd", "data"),
    params=NoParams,
    like="shape_like",
    doc="ograd, completed with zeros to the shape of data.",
)

# -- reverse ---------------------------------------------------------------------------------------------------------


class ReverseParams(Params):
    axis: Axes = param(doc="the axes to reverse; one that is named twice is turned back")

    def turned(self, ndim: int) -> tuple[int, ...]:
        """The axes that come out reversed, ascending. Raises ParamError when there is no such axis."""
        axes = [normal_axis(axis, ndim) for axis in self.axis]
        return tuple(axis for axis in sorted(set(axes)) if axes.count(axis) % 2)


class FlipParams(Params):
    axis: Axes | None = param(doc="the axes to reverse; None: all")

    def turned(self, ndim: int) -> tuple[int, ...]:
        """The axes that come out reversed. Raises ParamError when there is no such axis."""
        return tuple(range(ndim)) if self.axis is None else ReverseParams(axis=self.axis).turned(ndim)


def _reverse_shapes(p: ReverseParams | FlipParams, ins: Shapes, outs: Shapes):
    """data (…) ↔ the same shape."""
    if ins[0] is not None:
        p.turned(len(ins[0]))
    return same_shape(p, ins, outs)


for _name, _aliases, _params in (("reverse", ("flip",), ReverseParams), ("_npi_flip", (), FlipParams)):
    register_op(
        _name,
        aliases=_aliases,
        params=_params,
        inputs=("data",),
        infer_shape=_reverse_shapes,
        **ARRANGES,
        gradient=self_adjoint,
        doc="Reverse the order along some axes.",
    )

# -- Pad -------------------------------------------------------------------------------------------------------------


class PadParams(Params):
    mode: Literal["constant", "edge", "reflect"] = param(
        doc="the content of the border: one value, the nearest element, or the mirror image without the edge itself"
    )
    pad_width: Tuple = param(ge=0, doc="(before, after) of every axis, one after the other")
    constant_value: float = param(0.0, doc="the value of a constant border")

    def check(self) -> str | None:
        if len(self.pad_width) % 2:
            return f"pad_width needs two numbers for every axis, got {len(self.pad_width)} numbers"
        return None

    @property
    def widths(self) -> tuple[tuple[int, int], ...]:
        """(before, after) of every axis."""
        return tuple(zip(self.pad_width[::2], self.pad_width[1::2], strict=True))


def _pad_shapes(p: PadParams, ins: Shapes, outs: Shapes):
    """data (d, …) ↔ (before + d + after, …)."""
    data, out = ins[0], outs[0]
    for shape in (data, out):
        if shape is not None and len(shape) != len(p.widths):
            raise ParamError(
                "The number of widths is wrong",
                param="pad_width",
                expected=f"{2 * len(shape)}, two for every axis of data",
                got=p.pad_width,
            )
    back = None
    if out is not None:
        back = _widened(out, [(-before, -after) for before, after in p.widths])
    if data is None:
        return [back], outs
    for dim, width in zip(data, p.widths, strict=True):
        if p.mode == "reflect" and dim is not None and not is_at_most(max(width) + 1, dim):
            raise ParamError(
                "A mirror image is shorter than its original", param="pad_width", expected=f"< {dim}", got=width
            )
    return [back], [_widened(data, p.widths)]


def _widened(shape: Shape, widths: Sequence[tuple[int, int]]) -> Shape:
    return tuple(None if dim is None else dim + sum(width) for dim, width in zip(shape, widths, strict=True))


def _pad_gradient(node: Node, ograds: Entries):
    """dX = dY without its border, plus what the border copied from X."""
    p: PadParams = node.attrs.parsed
    if p.mode == "constant":
        begin = tuple(before for before, _ in p.widths)
        end = tuple(-after if after else None for _, after in p.widths)
        return [apply("slice", ograds[0], begin=begin, end=end)]
    return [apply("_backward_Pad", ograds[0], mode=p.mode, pad_width=p.pad_width)]


register_op(
    "Pad",
    aliases=("pad",),
    params=PadParams,
    inputs=("data",),
    infer_shape=_pad_shapes,
    gradient=_pad_gradient,
    **MOVES,
    doc="Put a border around data. Any rank and any axes are accepted.",
)
linear(
    "Pad",
    of="data",
    adjoint="_backward_Pad",
    inputs=("ograd",),
    restored={"constant_value": 0.0},
    doc="The gradient of a Pad that repeats elements: the border added to the elements that it was copied from.",
)
