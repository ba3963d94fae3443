"""Operators that shift, turn and surround arrays as NumPy does: roll, rot90, pad."""

from __future__ import annotations

from typing import Literal

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Axes, Params, Tuple, param
from symjax_nnvm.ir.register import Entries, Shapes, register_op, same_shape
from symjax_nnvm.ir.rules.axes import known, normal_axes
from symjax_nnvm.ir.rules.costs import ARRANGES, MOVES
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.types import Dim, Shape

# -- roll ------------------------------------------------------------------------------------------------------------


class RollParams(Params):
    shift: Tuple | None = param(None, doc="how many places elements move, on each axis or on all")
    axis: Axes | None = param(None, doc="the axes; None: the array is flattened, and gets its shape back")

    def check(self) -> str | None:
        if self.shift is None:
            return "roll missing 1 required positional argument: 'shift'."
        if self.axis is None:
            return None if len(self.shift) == 1 else "shift must be an int."
        if len(self.shift) not in (1, len(self.axis)):
            return f"shift and axis must be of one length, got {self.shift} and {self.axis}"
        return None

    @property
    def shifts(self) -> tuple[int, ...]:
        """A shift for each axis."""
        shifts = self.shift or ()
        return shifts * len(self.axis) if self.axis is not None and len(shifts) == 1 else shifts


def _roll_shapes(p: RollParams, ins: Shapes, outs: Shapes):
    """data (…) ↔ the same shape."""
    if ins[0] is not None and p.axis is not None:
        normal_axes(p.axis, len(ins[0]))
    return same_shape(p, ins, outs)


def _roll_gradient(node: Node, ograds: Entries):
    """dX = dY rolled back."""
    p: RollParams = node.attrs.parsed
    return [apply("_np_roll", ograds[0], shift=tuple(-shift for shift in p.shift or ()), axis=p.axis)]


register_op(
    "_np_roll",
    params=RollParams,
    inputs=("data",),
    infer_shape=_roll_shapes,
    gradient=_roll_gradient,
    **ARRANGES,
    doc="Move elements along axes; what leaves one end enters at the other.",
)

# -- rot90 -----------------------------------------------------------------------------------------------------------


class Rot90Params(Params):
    k: int = param(1, doc="how many quarter turns, from the first axis to the second")
    axes: Axes | None = param(None, doc="the two axes of the plane that is turned")

    def check(self) -> str | None:
        return None if self.axes is not None and len(self.axes) == 2 else "The length of axes must be 2."


def _turned(p: Rot90Params, shape: Shape | None) -> Shape | None:
    if shape is None:
        return None
    first, second = normal_axes(p.axes or (), len(shape), "axes")
    dims = list(shape)
    if p.k % 2:
        dims[first], dims[second] = dims[second], dims[first]
    return tuple(dims)


def _rot90_gradient(node: Node, ograds: Entries):
    """dX = dY turned back."""
    p: Rot90Params = node.attrs.parsed
    return [apply("_npi_rot90", ograds[0], k=-p.k, axes=p.axes)]


register_op(
    "_npi_rot90",
    params=Rot90Params,
    inputs=("data",),
    infer_shape=lambda p, ins, outs: ([_turned(p, outs[0])], [_turned(p, ins[0])]),
    gradient=_rot90_gradient,
    **ARRANGES,
    deviation=Deviation(
        "the gradient is turned back; MXNet turns it on", affects="training", when=lambda p: p.k % 2 == 1
    ),
    doc="Turn a plane of two axes by quarters.",
)

# -- pad -------------------------------------------------------------------------------------------------------------


class NumpyPadParams(Params):
    pad_width: tuple[Tuple, ...] = param(doc="(before, after) of every axis; one pair is for all")
    mode: Literal["constant", "edge", "maximum", "minimum", "reflect", "symmetric"] = param(
        "constant",
        doc="the content of the border: one value, the nearest element, the axis' largest or smallest one, the mirror "
        "image without the edge or with it",
    )
    constant_value: float = param(0.0, doc="the value of a constant border")
    reflect_type: str = param("even", doc="only even")

    def check(self) -> str | None:
        if not self.pad_width or any(len(pair) != 2 or min(pair) < 0 for pair in self.pad_width):
            return f"pad_width needs (before, after) of every axis, got {self.pad_width}"
        return None

    def widths(self, ndim: int) -> tuple[tuple[int, int], ...]:
        """(before, after) of every axis. Raises ParamError when there are not as many."""
        pairs = tuple((before, after) for before, after in self.pad_width)
        if len(pairs) not in (1, ndim):
            raise ParamError(
                "The number of widths is wrong",
                param="pad_width",
                expected=f"a pair for each of {ndim} axes",
                got=self.pad_width,
            )
        return pairs if len(pairs) == ndim else pairs * ndim


def _widened(dim: Dim, width: tuple[int, int], mode: str) -> Dim:
    if dim == 0 and mode != "constant" and sum(width):
        raise InferenceError(f"Nothing can be repeated around an empty axis in mode {mode}", expected="elements", got=0)
    return None if dim is None else dim + sum(width)


def _pad_shapes(p: NumpyPadParams, ins: Shapes, outs: Shapes):
    """data (d, …) ↔ (before + d + after, …)."""
    data, out = ins[0], outs[0]
    if data is None and out is None:
        return ins, outs
    ndim = len(data if data is not None else out or ())
    widths = p.widths(ndim)
    if out is not None and len(out) == ndim:
        back = tuple(None if dim is None else dim - sum(width) for dim, width in zip(out, widths, strict=True))
        data = back if data is None else tuple(map(known, data, back))
    if data is None:
        return ins, outs
    return [data], [tuple(_widened(dim, width, p.mode) for dim, width in zip(data, widths, strict=True))]


def _pad_gradient(node: Node, ograds: Entries):
    """dX = dY without its border, plus what the border copied from X."""
    p: NumpyPadParams = node.attrs.parsed
    data = node.inputs[0]
    if p.mode in ("maximum", "minimum"):
        return [apply("_backward_pad_extremes", ograds[0], data, data, pad_width=p.pad_width, mode=p.mode)]
    return [apply("_backward_npi_pad", ograds[0], data, pad_width=p.pad_width, mode=p.mode)]


register_op(
    "_npi_pad",
    params=NumpyPadParams,
    inputs=("data",),
    infer_shape=_pad_shapes,
    gradient=_pad_gradient,
    **MOVES,
    deviation=Deviation(
        "borders that are not constant have a gradient; MXNet refuses them",
        affects="training",
        when=lambda p: p.mode != "constant",
    ),
    doc="Put a border around data.",
)
linear(
    "_npi_pad",
    of="data",
    adjoint="_backward_npi_pad",
    restored={"constant_value": 0.0},
    doc="The gradient of _npi_pad: ograd, its border added to the elements that it was copied from.",
)


def _extremes_shapes(p: NumpyPadParams, ins: Shapes, outs: Shapes):
    """data (d, …), of (d, …) → (before + d + after, …)."""
    (data,), padded = _pad_shapes(p, [ins[0] if ins[0] is not None else ins[1]], outs)
    return [data, data], padded


register_op(
    "_pad_extremes",
    params=NumpyPadParams,
    inputs=("data", "of"),
    infer_shape=_extremes_shapes,
    **MOVES,
    own=True,
    doc="Put a border around data: along each axis the sum of the elements where `of` has its largest or smallest one.",
)
linear(
    "_pad_extremes",
    of="data",
    adjoint="_backward_pad_extremes",
    doc="The gradient of _npi_pad in the modes maximum and minimum: ograd, its border added where `of` is extreme.",
)
