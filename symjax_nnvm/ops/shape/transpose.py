"""Operators that add, drop and permute axes: expand_dims, squeeze, transpose, SwapAxis, depth ↔ space."""

from __future__ import annotations

from collections.abc import Sequence

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.node import Node, apply
from symjax_nnvm.ir.params import Axes, Axis, Params, param
from symjax_nnvm.ir.register import Entries, Shapes, register_op
from symjax_nnvm.ir.rules.axes import completed, normal_axes, normal_axis, without_axis
from symjax_nnvm.ir.rules.costs import ARRANGES, MOVES
from symjax_nnvm.ir.rules.layout_rules import arrangement
from symjax_nnvm.ir.rules.size_symbols import is_multiple, is_open
from symjax_nnvm.ir.types import Shape, format_shape

# -- one axis more, some fewer, another order ------------------------------------------------------------------------


class ExpandDimsParams(Params):
    axis: Axis = param(doc="the place of the new axis in the result; negative counts from the end")


def expand_dims_shapes(p: ExpandDimsParams, ins: Shapes, outs: Shapes):
    """data (…, …) ↔ (…, 1, …)."""
    out = outs[0]
    data = completed(ins[0], without_axis(out, p.axis))
    if data is None:
        return ins, outs
    axis = normal_axis(p.axis, len(data) + 1)
    return [data], [(*data[:axis], 1, *data[axis:])]


register_op(
    "expand_dims",
    aliases=("_npi_expand_dims",),
    params=ExpandDimsParams,
    infer_shape=expand_dims_shapes,
    gradient=lambda node, ograds: [apply("_np_squeeze", ograds[0], axis=node.attrs.parsed.axis)],
    inplace=((0, 0),),
    **ARRANGES,
    doc="Insert an axis of length 1.",
)


class SqueezeParams(Params):
    axis: Axes | None = param(None, doc="axes of length 1 to remove; None: all of them")


def numpy_squeeze_shapes(p: SqueezeParams, ins: Shapes, outs: Shapes):
    """data without the axes of length 1."""
    data = ins[0]
    if data is None:
        return ins, outs
    if p.axis is None:
        if None in data:
            return ins, outs
        if any(is_open(dim) for dim in data):
            raise ParamError(
                "An open size that is 1 would be squeezed out, and no other",
                param="axis",
                expected="the axes to squeeze out",
                got=f"None, and data of shape {format_shape(data)}",
            )
        return ins, [tuple(dim for dim in data if dim != 1)]
    axes = normal_axes(p.axis, len(data)) if data or p.axis not in ((0,), (-1,)) else ()
    for axis in axes:
        if data[axis] not in (1, None):
            raise ParamError(
                "cannot select an axis to squeeze out which has size not equal to one",
                param="axis",
                expected="axes of length 1",
                got=f"axis {axis} of {format_shape(data)}",
            )
    data = tuple(1 if i in axes else dim for i, dim in enumerate(data))
    return [data], [tuple(dim for i, dim in enumerate(data) if i not in axes)]


def squeeze_shapes(p: SqueezeParams, ins: Shapes, outs: Shapes):
    """data without the axes of length 1; (1,) when none is left."""
    inputs, (out,) = numpy_squeeze_shapes(p, ins, outs)
    return inputs, [out or (None if out is None else (1,))]


for _name, _inputs, _shapes, _doc in (
    ("squeeze", "data", squeeze_shapes, "Remove axes of length 1; at least one axis stays."),
    ("_np_squeeze", "a", numpy_squeeze_shapes, "Remove axes of length 1."),
):
    register_op(
        _name,
        params=SqueezeParams,
        inputs=(_inputs,),
        infer_shape=_shapes,
        gradient=lambda node, ograds: [apply("reshape_like", ograds[0], node.inputs[0])],
        inplace=((0, 0),),
        **ARRANGES,
        doc=_doc,
    )


class TransposeParams(Params):
    axes: Axes = param((), doc="axis of data for each axis of the result; (): all in reverse order")


class NumpyTransposeParams(Params):
    axes: Axes | None = param(None, doc="axis of data for each axis of the result; None: all in reverse order")


class MoveaxisParams(Params):
    source: Axes = param(doc="axes of data")
    destination: Axes = param(doc="the place of each of them in the result; the others keep their order")

    def check(self) -> str | None:
        return None if len(self.source) == len(self.destination) else "source and destination not equal."


def moved_axes(p: MoveaxisParams, ndim: int) -> tuple[int, ...]:
    """The axis of data for each axis of the result. Raises ParamError when an axis is named twice, or there is none."""
    source = normal_axes(p.source, ndim, "source")
    moved = dict(zip(normal_axes(p.destination, ndim, "destination"), source, strict=True))
    others = (axis for axis in range(ndim) if axis not in source)
    return tuple(moved[place] if place in moved else next(others) for place in range(ndim))


def permutation(p: TransposeParams | NumpyTransposeParams | MoveaxisParams, ndim: int) -> tuple[int, ...]:
    """The axis of data for each axis of the result. Raises ParamError when the axes are not a permutation."""
    if isinstance(p, MoveaxisParams):
        return moved_axes(p, ndim)
    if not p.axes:
        return tuple(range(ndim))[::-1]
    if len(p.axes) != ndim:
        raise ParamError("Not a permutation of the axes", param="axes", expected=f"{ndim} axes", got=p.axes)
    return normal_axes(p.axes, ndim, "axes")


def _transpose_shapes(p: TransposeParams | NumpyTransposeParams | MoveaxisParams, ins: Shapes, outs: Shapes):
    """data (d0, d1, …) ↔ (d[axes[0]], d[axes[1]], …)."""
    data, out = ins[0], outs[0]
    if data is None and out is None:
        return ins, [None if isinstance(p, MoveaxisParams) or not p.axes else (None,) * len(p.axes)]
    back = None if out is None else tuple(out[i] for i in _inverse(permutation(p, len(out))))
    return [back], [out if data is None else tuple(data[i] for i in permutation(p, len(data)))]


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _transpose_gradient(node: Node, ograds: Entries):
    """dX = dY with its axes back in order."""
    p: TransposeParams | NumpyTransposeParams = node.attrs.parsed
    if not p.axes:
        return [apply("transpose", ograds[0])]
    return [apply("transpose", ograds[0], axes=_inverse(permutation(p, len(p.axes))))]


def _moveaxis_gradient(node: Node, ograds: Entries):
    """dX = dY with its axes moved back."""
    p: MoveaxisParams = node.attrs.parsed
    return [apply("_np_moveaxis", ograds[0], source=p.destination, destination=p.source)]


for _name, _params, _inputs, _doc in (
    ("transpose", TransposeParams, None, "Permute the axes. Negative axes are accepted."),
    ("_np_transpose", NumpyTransposeParams, ("a",), "Permute the axes, or turn their order around."),
):
    register_op(
        _name,
        params=_params,
        inputs=_inputs,
        infer_shape=_transpose_shapes,
        gradient=_transpose_gradient,
        **ARRANGES,
        layout=arrangement if _name == "transpose" else None,
        samples=lambda p, ins, outs: p.axes is not None and p.axes[:1] == (0,),
        doc=_doc,
    )

register_op(
    "_np_moveaxis",
    params=MoveaxisParams,
    inputs=("a",),
    infer_shape=_transpose_shapes,
    gradient=_moveaxis_gradient,
    **ARRANGES,
    doc="Put some axes in other places; the others keep their order.",
)


class SwapAxisParams(Params):
    dim1: Axis = param(0, doc="one axis")
    dim2: Axis = param(0, doc="the other")


def _swapped(p: SwapAxisParams, shape: Shape | None) -> Shape | None:
    if shape is None:
        return None
    dims = list(shape)
    a, b = normal_axis(p.dim1, len(dims), "dim1"), normal_axis(p.dim2, len(dims), "dim2")
    dims[a], dims[b] = dims[b], dims[a]
    return tuple(dims)


def _swap_axis_shapes(p: SwapAxisParams, ins: Shapes, outs: Shapes):
    """data (…, a, …, b, …) ↔ (…, b, …, a, …)."""
    return [_swapped(p, outs[0])], [_swapped(p, ins[0])]


register_op(
    "SwapAxis",
    aliases=("_npi_swapaxes", "swapaxes"),
    params=SwapAxisParams,
    inputs=("data",),
    infer_shape=_swap_axis_shapes,
    gradient=lambda node, ograds: [
        apply("SwapAxis", ograds[0], dim1=node.attrs.parsed.dim1, dim2=node.attrs.parsed.dim2)
    ],
    **ARRANGES,
    doc="Exchange two axes.",
)

# -- depth and space -------------------------------------------------------------------------------------------------


class BlockParams(Params):
    block_size: int = param(ge=1, doc="side of the square of pixels that one column of channels holds")


def _merged(p: BlockParams, shape: Shape | None) -> Shape | None:
    """(n, c b², h, w) → (n, c, h b, w b)."""
    if shape is None:
        return None
    b, (n, c, h, w) = p.block_size, _image(shape)
    _divides(b * b, c, "channels")
    return (n, c and c // (b * b), h and h * b, w and w * b)


def _split(p: BlockParams, shape: Shape | None) -> Shape | None:
    """(n, c, h b, w b) → (n, c b², h, w)."""
    if shape is None:
        return None
    b, (n, c, h, w) = p.block_size, _image(shape)
    _divides(b, h, "rows")
    _divides(b, w, "columns")
    return (n, c and c * b * b, h and h // b, w and w // b)


def _image(shape: Shape) -> Shape:
    if len(shape) != 4:
        raise InferenceError("Not a batch of images", expected="(n, c, h, w)", got=format_shape(shape))
    return shape


def _divides(divisor: int, dim: int | None, what: str) -> None:
    if dim is not None and not is_multiple(dim, divisor):
        raise InferenceError(
            "Blocks do not fit", param="block_size", expected=f"{what} in multiples of {divisor}", got=dim
        )


for _name, _inverse_name, _to, _back, _doc in (
    ("depth_to_space", "space_to_depth", _merged, _split, "Channels to pixels: (n, c b², h, w) → (n, c, h b, w b)."),
    ("space_to_depth", "depth_to_space", _split, _merged, "Pixels to channels: (n, c, h b, w b) → (n, c b², h, w)."),
):
    register_op(
        _name,
        params=BlockParams,
        inputs=("data",),
        infer_shape=lambda p, ins, outs, to=_to, back=_back: ([back(p, outs[0])], [to(p, ins[0])]),
        gradient=lambda node, ograds, inverse=_inverse_name: [
            apply(inverse, ograds[0], block_size=node.attrs.parsed.block_size)
        ],
        **MOVES,
        doc=_doc,
    )
