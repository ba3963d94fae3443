"""Images (height, width, channels) in other sizes, as OpenCV resizes them, and rectangles cut out of them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.op import Deviation
from symjax_nnvm.ir.params import Params, Tuple, param
from symjax_nnvm.ir.register import Shapes, Types, register_op, same_type
from symjax_nnvm.ir.rules.axes import completed, known
from symjax_nnvm.ir.rules.costs import MOVES, Flops, Sizes
from symjax_nnvm.ir.rules.linear import linear
from symjax_nnvm.ir.rules.open_sizes import is_at_most
from symjax_nnvm.ir.types import Dim, Shape
from symjax_nnvm.ops.image.shapes import one_or_many, one_or_three

NEAREST, LINEAR, CUBIC, AREA, LANCZOS = range(5)
"""OpenCV's numbers of interpolations."""

_CUBIC = -0.75
"""The slope of OpenCV's cubic kernel at 1."""

# -- where pixels come from ------------------------------------------------------------------------------------------


def taps(new: int, old: int, interp: int, shrinks: bool) -> tuple[np.ndarray, np.ndarray]:
    """The old pixels (new, k) that each new one is made of, and their weights (new, k), float32, whose sum is 1.

    Those are OpenCV's of an axis with `old` pixels; pixels beyond its ends are the last ones. interp: 0 to 4. shrinks:
    whether neither axis of the image becomes longer, of which the means of areas are made; else they are interpolated.
    """
    scale, number = old / new, np.arange(new)
    if interp == NEAREST:
        return np.minimum((number * scale).astype(np.int64), old - 1)[:, None], np.ones((new, 1), np.float32)
    if interp == AREA and shrinks:
        begin, end = number * scale, np.minimum((number + 1) * scale, old)
        places = np.floor(begin).astype(np.int64)[:, None] + np.arange(int(np.ceil(scale)) + 1)
        weights = np.clip(np.minimum(end[:, None], places + 1) - np.maximum(begin[:, None], places), 0, None)
        return np.minimum(places, old - 1), (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    if interp == AREA:
        low = np.floor(number * scale).astype(np.int64)
        part = number + 1 - (low + 1) / scale
        part = np.where(part <= 0, 0, part - np.floor(part))
    else:
        place = ((number + 0.5) * scale - 0.5).astype(np.float32)
        low = np.floor(place).astype(np.int64)
        part = (place - low).astype(np.float64)
    if interp == CUBIC:
        first, weights = -1, _cubic(part)
    elif interp == LANCZOS:
        first, weights = -3, _lanczos(part)
    else:
        part = np.where((low < 0) | (low >= old - 1), 0, part)
        low = np.clip(low, 0, old - 1)
        first, weights = 0, np.stack([1 - part, part], 1)
    places = low[:, None] + first + np.arange(weights.shape[1])
    return np.clip(places, 0, old - 1), weights.astype(np.float32)


def _cubic(part: np.ndarray) -> np.ndarray:
    """The weights (n, 4) of four neighbours, for how far (n,) each place is beyond the second."""

    def near(x: np.ndarray) -> np.ndarray:
        return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1

    def far(x: np.ndarray) -> np.ndarray:
        return ((_CUBIC * x - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC

    three = far(part + 1), near(part), near(1 - part)
    return np.stack([*three, 1 - sum(three)], 1)


def _lanczos(part: np.ndarray) -> np.ndarray:
    """The weights (n, 8) of eight neighbours, for how far (n,) each place is beyond the fourth."""
    distance = part[:, None] + 3 - np.arange(8)
    weights = np.sinc(distance) * np.sinc(distance / 4)
    return weights / weights.sum(1, keepdims=True)


def resized(image: np.ndarray, height: int, width: int, interp: int) -> np.ndarray:
    """An image (h, w, c) of another size, by NumPy; whole numbers are rounded and stay in the range of their dtype."""
    shrinks = height <= image.shape[0] and width <= image.shape[1]
    values = image.astype(np.float32)
    places, weights = taps(width, image.shape[1], interp, shrinks)
    values = np.asarray(sum(values[:, places[:, i]] * weights[:, i, None] for i in range(weights.shape[1])))
    places, weights = taps(height, image.shape[0], interp, shrinks)
    values = np.asarray(sum(values[places[:, i]] * weights[:, i, None, None] for i in range(weights.shape[1])))
    if image.dtype.kind in "iu":
        info = np.iinfo(image.dtype)
        values = np.clip(np.rint(values), info.min, info.max)
    return values.astype(image.dtype)


# -- resize ----------------------------------------------------------------------------------------------------------


class ResizeParams(Params):
    size: Tuple = param((), ge=1, doc="(width, height) of the result; one number: of both, or with keep_ratio of the "
                        "shorter edge")  # fmt: skip
    keep_ratio: bool = param(False, doc="whether one number is the length of the shorter edge, and the other follows")
    interp: int = param(
        LINEAR, ge=NEAREST, le=LANCZOS, doc="0: the nearest pixel, 1: linear, 2: cubic, 3: means of areas, 4: Lanczos'"
    )

    def check(self) -> str | None:
        if len(self.size) not in (1, 2):
            return f"Parameter size={self.size}: expected 1 number or 2"
        return None


def resized_sizes(p: ResizeParams, data: Shape) -> tuple[Dim, Dim]:
    """(height, width) of the result. Raises InferenceError where nothing would be left."""
    if len(p.size) == 2 or not p.keep_ratio:
        return p.size[-1], p.size[0]
    height, width = data[-3:-1]
    if height is None or width is None:
        return None, None
    edge = p.size[0]
    if not is_at_most(height, width):
        return height * edge // width, edge
    return edge, width * edge // height


def _resize_shapes(p: ResizeParams, ins: Shapes, outs: Shapes):
    """data (h, w, c) → (h', w', c), data (n, h, w, c) → (n, h', w', c)."""
    data, out = ins[0], outs[0]
    for shape in (data, out):
        one_or_many(shape)
    rank = len(data or out or ())
    if not rank:
        return ins, outs
    data, out = data or (None,) * rank, out or (None,) * rank
    sizes = resized_sizes(p, data)
    batch = [known(data[i], out[i]) for i in range(rank - 3)]
    channels = known(data[-1], out[-1])
    return [(*batch, *data[-3:-1], channels)], [(*batch, *sizes, channels)]


def _resize_types(p: Any, ins: Types, outs: Types):
    """data and result of one dtype: bytes, or a floating-point one."""
    inputs, outputs = same_type(p, ins, outs)
    dtype = next(iter((*inputs, *outputs)), None)
    if dtype not in (None, "uint8", "float16", "float32", "float64"):
        raise InferenceError(
            "Images of this dtype are not resized", expected="uint8 or a floating-point dtype", got=dtype
        )
    return inputs, outputs


_TAPS = (1, 2, 4, 2, 8)


def _resize_flops(p: ResizeParams, ins: Sizes, outs: Sizes) -> Flops:
    """One multiply-add for each pixel that a pixel is made of, along each axis."""
    data, out = ins[0], outs[0]
    counts = [_TAPS[p.interp] if p.interp != AREA else max(2, -(-data[i] // max(out[i], 1))) for i in (-3, -2)]
    return Flops(prod(data[:-2]) * out[-2] * data[-1] * counts[1] + prod(out) * counts[0])


def _resize_workspace(p: ResizeParams, ins: Sizes, outs: Sizes) -> int:
    """Data and result with channels first, what is between the axes, and a matrix for each."""
    data, out = ins[0], outs[0]
    between = prod(data[:-2]) * max(out[-2], data[-2]) * data[-1]
    return prod(data) + prod(out) + between + data[-3] * out[-3] + data[-2] * out[-2]


register_op(
    "_image_resize",
    aliases=("_npx__image_resize",),
    params=ResizeParams,
    infer_shape=_resize_shapes,
    infer_type=_resize_types,
    flops=_resize_flops,
    workspace=_resize_workspace,
    deviation=(
        Deviation(
            "bytes are rounded to the nearest; OpenCV, which computes them with 11 bits, gives 1 more or less",
            when=lambda p: p.interp != NEAREST,
        ),
        Deviation("has a gradient, where MXNet's stops with an error", "training"),
    ),
    doc="An image (h, w, c), or a batch (n, h, w, c), in another size, as OpenCV resizes: without smoothing before it "
    "shrinks, but for the means of areas. Bytes are rounded.",
)
linear(
    "_image_resize",
    of="data",
    adjoint="_backward_image_resize",
    flops=lambda p, ins, outs: _resize_flops(p, outs, ins),
    workspace=lambda p, ins, outs: _resize_workspace(p, outs, ins),
    doc="The gradient of resize: every pixel receives its share of the pixels that it was in.",
)

# -- crop ------------------------------------------------------------------------------------------------------------


class CropParams(Params):
    x: int = param(ge=0, doc="first column")
    y: int = param(ge=0, doc="first row")
    width: int = param(ge=1, doc="number of columns")
    height: int = param(ge=1, doc="number of rows")


def _crop_shapes(p: CropParams, ins: Shapes, outs: Shapes):
    """data (h, w, c) → (height, width, c), data (n, h, w, c) → (n, height, width, c), of 1 channel or 3."""
    data, out = ins[0], outs[0]
    for shape in (data, out):
        one_or_many(shape)
        one_or_three(shape, -1)
    rank = len(data or out or ())
    if not rank:
        return ins, outs
    data, out = data or (None,) * rank, out or (None,) * rank
    for size, first, count, names in ((data[-2], p.x, p.width, "x + width"), (data[-3], p.y, p.height, "y + height")):
        if size is not None and not is_at_most(first + count, size):
            raise InferenceError(f"{names} reaches beyond the image", expected=f"at most {size}", got=first + count)
    merged = completed((*data[:-3], None, None, data[-1]), (*out[:-3], None, None, out[-1]))
    assert merged is not None
    return [(*merged[:-3], *data[-3:-1], merged[-1])], [(*merged[:-3], p.height, p.width, merged[-1])]


register_op(
    "_image_crop",
    aliases=("_npx__image_crop",),
    params=CropParams,
    infer_shape=_crop_shapes,
    **MOVES,
    doc="A rectangle of an image (h, w, c), or of each of a batch (n, h, w, c). A first row or column below 0 is an "
    "error; MXNet reads the memory before the image.",
)
linear(
    "_image_crop",
    of="data",
    adjoint="_backward_image_crop",
    **MOVES,
    doc="The gradient of crop: the head gradient in its place, and zeros around it.",
)
