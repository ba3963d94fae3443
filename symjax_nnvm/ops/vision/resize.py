"""Other sizes for images (n, c, h, w): bilinear resizing, adaptive average pooling, cropping; each linear in the data,
so that each has its transpose for a gradient."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any, Literal

import numpy as np

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Shapes, Types, first_type, float_type, register_op
from symjax_nnvm.ir.rules.axes import known
from symjax_nnvm.ir.rules.costs import MOVES, Flops, Sizes, per_input
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.rules.named_dims import image_shape
from symjax_nnvm.ir.rules.size_symbols import is_at_most, is_open
from symjax_nnvm.ir.types import Dim, Shape

Extent = tuple[Dim, Dim]

DENSE = 1 << 20
"""The most elements of a resizing matrix that is multiplied densely; of a larger one only nonzeros count."""


def _resized(ins: Shapes, outs: Shapes, sizes: Callable[[Shape], Extent]) -> tuple[Shape, Shape]:
    """data (n, c, h, w), output (n, c, h', w'), with the height and width that the output has for such data."""
    data, out = image_shape(ins[0], "data"), image_shape(outs[0], "output")
    n, c = known(data[0], out[0]), known(data[1], out[1])
    h, w = sizes(data)
    return (n, c, *data[2:]), (n, c, known(h, out[2]), known(w, out[3]))


# -- bilinear resizing -----------------------------------------------------------------------------------------------


class BilinearResizeParams(Params):
    height: int = param(1, ge=1, doc="size: the output's height")
    width: int = param(1, ge=1, doc="size: the output's width")
    scale_height: float | None = param(None, doc="size and odd_scale: factor of the height; in size it replaces height")
    scale_width: float | None = param(None, doc="size and odd_scale: factor of the width; in size it replaces width")
    mode: Literal["like", "odd_scale", "size", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up"] = param(
        "size",
        doc="size: to (height, width), or by the scales; like: to the size of the second input; odd_scale: by the "
        "scales, odd sizes to odd ones; to_even_down, …: to the next even or odd size",
    )
    align_corners: bool = param(
        True, doc="whether the corner elements of both grids coincide, or the corners of their outlines"
    )

    def check(self) -> str | None:
        scales = {"scale_height": self.scale_height, "scale_width": self.scale_width}
        needed = self.mode == "odd_scale" or (self.mode == "size" and any(s is not None for s in scales.values()))
        for name, scale in scales.items():
            if needed and scale is None:
                return f"Parameter {name} is missing: mode={self.mode!r} takes both scales, or in size none"
            if scale is not None and scale <= 0:
                return f"Parameter {name}={scale}: expected a factor > 0"
        return None


_EXACT = 1 << 10
"""Sizes below 2¹⁴ times multiples of its inverse are exact in single precision."""


def _scaled(size: int, scale: float | None) -> int:
    """The size times a factor, in single precision as in MXNet, without its fraction.

    Raises InferenceError for an open size and a factor whose product single precision may round.
    """
    if is_open(size):
        ratio = Fraction(float(np.float32(scale)))
        if ratio.denominator > _EXACT:
            problem = f"The factor {scale} of an open size is rounded"
            raise InferenceError(problem, expected=f"a multiple of 1 / {_EXACT}", got=str(scale))
        return size * ratio.numerator // ratio.denominator
    return int(np.float32(size) * np.float32(scale))


def _bilinear_size(p: BilinearResizeParams, size: Dim, param_size: int, scale: float | None) -> Dim:
    """The output's size for one of the data's."""
    if p.mode == "size" and scale is None:
        return param_size
    if size is None or p.mode == "like":
        return None
    odd = size % 2
    match p.mode:
        case "size":
            new = _scaled(size, scale)
        case "odd_scale":
            new = _scaled(size - odd, scale) + odd
        case "to_even_down":
            new = size - odd
        case "to_even_up":
            new = size + odd
        case "to_odd_down":
            new = size - (1 - odd)
        case "to_odd_up":
            new = size + (1 - odd)
    if not is_at_most(1, new):
        problem = f"Nothing would be left of {size} elements"
        raise InferenceError(problem, param="mode", expected="an output of at least 1 element", got=p.mode)
    return new


def bilinear_sizes(p: BilinearResizeParams, data: Shape, like: Shape | None) -> Extent:
    """The output's height and width."""
    if like is not None:
        return like[2], like[3]
    return (
        _bilinear_size(p, data[2], p.height, p.scale_height),
        _bilinear_size(p, data[3], p.width, p.scale_width),
    )


def _bilinear_shapes(p: BilinearResizeParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w), like (…, …, h', w') → (n, c, h', w')."""
    like = image_shape(ins[1], "like") if len(ins) > 1 else None
    data, out = _resized(ins, outs, lambda data: bilinear_sizes(p, data, like))
    return [data, *((None, None, *out[2:]) for _ in ins[1:])], [out]


def _bilinear_types(p: BilinearResizeParams, ins: Types, outs: Types):
    """data and output of one floating-point dtype; like of any."""
    inputs, outputs = float_type(p, ins[:1], outs)
    return [*inputs, *ins[1:]], outputs


def _resizing(p: Any, ins: Sizes, outs: Sizes) -> int:
    """A matrix for each axis, and the data after the first; a sparse matrix's parts, and the terms that it adds up."""
    (n, c, *olds), news = ins[0], outs[0][2:]
    if 0 in (*ins[0], *outs[0]):
        return 0
    total = n * c * news[0] * olds[1]
    for old, new, other in zip(olds, news, (max(olds[1], news[1]), max(olds[0], news[0])), strict=True):
        dense = old * new <= DENSE
        total += old * new if dense else (old + new) * (6 + n * c * other)
    return total


register_op(
    "_contrib_BilinearResize2D",
    params=BilinearResizeParams,
    inputs=("data", "like"),
    inputs_used=lambda p: ("data", "like") if p.mode == "like" else ("data",),
    infer_shape=_bilinear_shapes,
    infer_type=_bilinear_types,
    flops=lambda p, ins, outs: Flops(4 * prod(outs[0])),
    workspace=_resizing,
    drawing="pooling",
    doc="Images (n, c, h, w) in another size: each element is interpolated between the four around its place.",
)
linear(
    "_contrib_BilinearResize2D",
    of="data",
    adjoint="_backward_contrib_BilinearResize2D",
    workspace=_resizing,
    inputs=("ograd", "data"),
    restored={"mode": "like"},
    like="like",
    doc="The gradient of BilinearResize2D: its transpose, to the size of data.",
)

# -- adaptive average pooling ----------------------------------------------------------------------------------------


class AdaptiveAvgPoolingParams(Params):
    output_size: Tuple = param((), ge=1, doc="the output's height and width; one number for both; (): 1")

    def check(self) -> str | None:
        if len(self.output_size) > 2:
            return f"Parameter output_size={self.output_size}: expected at most 2 numbers"
        return None

    @property
    def sizes(self) -> tuple[int, int]:
        """(height, width) of the output."""
        sizes = self.output_size or (1,)
        return sizes[0], sizes[-1]


def _adaptive_shapes(p: AdaptiveAvgPoolingParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w) → (n, c, h', w')."""
    data, out = _resized(ins, outs, lambda data: p.sizes)
    return [data], [out]


register_op(
    "_contrib_AdaptiveAvgPooling2D",
    params=AdaptiveAvgPoolingParams,
    infer_shape=_adaptive_shapes,
    infer_type=float_type,
    flops=per_input(1),
    workspace=_resizing,
    drawing="pooling",
    doc="The means of h' × w' windows that cover images (n, c, h, w) evenly: number i of h' reaches from ⌊i h / h'⌋ to "
    "⌈(i + 1) h / h'⌉. More than two output sizes are an error; MXNet ignores them all.",
)
linear(
    "_contrib_AdaptiveAvgPooling2D",
    of="data",
    adjoint="_backward_contrib_AdaptiveAvgPooling2D",
    workspace=_resizing,
    doc="The gradient of AdaptiveAvgPooling2D: every element receives its share of the means it is in.",
)

# -- Crop ------------------------------------------------------------------------------------------------------------


class CropParams(Params):
    num_args: int = param(ge=1, le=2, doc="number of inputs: 1, or 2 with an array of the size to crop to")
    offset: Tuple = param((0, 0), ge=0, doc="first row and column that stay")
    h_w: Tuple = param((0, 0), ge=0, doc="height and width that stay, for one input")
    center_crop: bool = param(False, doc="take the middle; offset is ignored")

    def check(self) -> str | None:
        for name in ("offset", "h_w"):
            if len(value := getattr(self, name)) != 2:
                return f"Parameter {name}={value}: expected 2 numbers, for rows and columns"
        if self.num_args == 1 and 0 in self.h_w:
            return f"Parameter h_w={self.h_w}: expected a height and a width ≥ 1 for one input"
        return None


def crop_begin(p: CropParams, whole: tuple[int, int], part: tuple[int, int]) -> tuple[int, int]:
    """The first row and column that stay."""
    if p.center_crop:
        return (whole[0] - part[0]) // 2, (whole[1] - part[1]) // 2
    return p.offset[0], p.offset[1]


def _check_room(p: CropParams, whole: Extent, part: Extent) -> None:
    for i, (name, size, part_size) in enumerate(zip(("height", "width"), whole, part, strict=True)):
        if size is None or part_size is None:
            continue
        room = size - part_size
        if not is_at_most(part_size, size):
            problem = f"The crop {name} should be less than the input data's {name}"
            layout_given = "h_w" if p.num_args == 1 else None
            raise InferenceError(problem, param=layout_given, expected=f"at most {size}", got=part_size)
        if not p.center_crop and not is_at_most(p.offset[i], room):
            problem = f"offset[{i}] should be less than the residual space of {name}"
            raise InferenceError(problem, param="offset", expected=f"at most {room}", got=p.offset[i])


def _crop_shapes(p: CropParams, ins: Shapes, outs: Shapes):
    """data (n, c, h, w), like (…, …, h', w') → (n, c, h', w')."""
    like = (None, None, *p.h_w) if p.num_args == 1 else image_shape(ins[1], "arg1")
    data, out = _resized(ins, outs, lambda data: (like[2], like[3]))
    _check_room(p, (data[2], data[3]), (out[2], out[3]))
    return [data, *((None, None, *out[2:]) for _ in ins[1:])], [out]


register_op(
    "Crop",
    params=CropParams,
    variadic="num_args",
    infer_shape=_crop_shapes,
    infer_type=first_type,
    **MOVES,
    doc="A rectangle of images (n, c, h, w): of the size h_w, or of that of the second input; from offset on, or the "
    "middle. Takes every dtype; MXNet takes float32. (`crop` is another operator: slice.)",
)
linear(
    "Crop",
    of="arg0",
    adjoint="_backward_Crop",
    inputs=("ograd", "arg0"),
    carried=("offset", "center_crop"),
    settings={"num_args": 2},
    like="arg1",
    doc="The gradient of Crop: ograd in its place, and zeros around it.",
)
