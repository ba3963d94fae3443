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
from symjax_nnvm.ir.rules.size_symbols import is_at_most
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
    scale, number = _scale(new, old), np.arange(new)
    if interp == NEAREST:
        return np.minimum((number * scale).astype(np.int64), old - 1)[:, None], np.ones((new, 1), np.float32)
    if interp == AREA and shrinks:
        begin, end = number * scale, np.minimum((number + 1) * scale, old)
        places = np.floor(begin).astype(np.int64)[:, None] + np.arange(int(np.ceil(scale)) + 1)
        weights = np.clip(np.minimum(end[:, None], places + 1) - np.maximum(begin[:, None], places), 0, None)
        return np.minimum(places, old - 1), (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    if interp == AREA:
        low = np.floor(number * scale).astype(np.int64)
        part = (number + 1 - (low + 1) * (new / old)).astype(np.float32)
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


def _scale(new: int, old: int) -> float:
    """Old pixels for each new one, rounded as OpenCV rounds it: a pixel at a whole number is another one else."""
    return 1 / (new / old)


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


# -- bytes -----------------------------------------------------------------------------------------------------------

_BITS = 11
"""Bits of OpenCV's weights of bytes behind the point."""


def is_halved(old: tuple[int, ...], new: tuple[int, ...], interp: int) -> bool:
    """Whether each pixel (height, width) is the mean of four."""
    return interp in (LINEAR, AREA) and tuple(old) == (2 * new[0], 2 * new[1])


def by_whole_numbers(old: tuple[int, ...], new: tuple[int, ...], interp: int) -> bool:
    """Whether OpenCV computes bytes of these sizes (height, width) with weights of 11 bits: `resized_bytes`."""
    if is_halved(old, new, interp):
        return True
    shrinks = new[0] <= old[0] and new[1] <= old[1]
    return interp in (LINEAR, CUBIC, LANCZOS) or (interp == AREA and not shrinks)


def _byte_taps(new: int, old: int, interp: int, *, rows: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return `taps` with int32 weights in units of 2⁻¹¹. Beyond the ends of a column the last pixel is taken twice."""
    if rows and interp == LINEAR:
        place = ((np.arange(new) + 0.5) * _scale(new, old) - 0.5).astype(np.float32)
        low = np.floor(place)
        places = np.clip(low.astype(np.int64)[:, None] + [0, 1], 0, old - 1)
        weights = np.stack([1 - (place - low), place - low], 1)
    else:
        places, weights = taps(new, old, interp, shrinks=False)
    return places, np.rint(weights * np.float32(1 << _BITS)).astype(np.int32)


def _terms(values: Any, places: np.ndarray, weights: np.ndarray, after: int) -> list[Any]:
    """The weighted pixels that are added up along an axis with so many axes after it."""
    tail = [slice(None)] * after
    return [
        values[(..., places[:, i], *tail)] * weights[:, i].reshape(-1, *[1] * after) for i in range(weights.shape[1])
    ]


def resized_bytes(image: Any, height: int, width: int, interp: int) -> Any:
    """Bytes (…, h, w, c) of another size, as OpenCV computes them by whole numbers.

    image: int32, an array of NumPy's or of JAX's; so is the result. Only where `by_whole_numbers` is true.
    """
    old = image.shape[-3:-1]
    if is_halved(old, (height, width), interp):
        rows = image[..., ::2, :, :] + image[..., 1::2, :, :]
        return (rows[..., ::2, :] + rows[..., 1::2, :] + 2) >> 2
    wide: Any = sum(_terms(image, *_byte_taps(width, old[1], interp, rows=False), 1))
    places, weights = _byte_taps(height, old[0], interp, rows=True)
    if weights.shape[1] == 2:  # a sum of two that OpenCV cuts off on the way, so that 16 bits are enough
        return (sum(term >> 16 for term in _terms(wide >> 4, places, weights, 2)) + 2) >> 2
    total: Any = sum(_terms(wide, places, weights, 2))
    return ((total + (1 << (2 * _BITS - 1))) >> 2 * _BITS).clip(0, 255)


def resized(image: np.ndarray, height: int, width: int, interp: int) -> np.ndarray:
    """An image (h, w, c) of another size, by NumPy; whole numbers are rounded and stay in the range of their dtype."""
    if image.dtype == np.uint8 and by_whole_numbers(image.shape[:2], (height, width), interp):
        return resized_bytes(image.astype(np.int32), height, width, interp).astype(np.uint8)
    shrinks = height <= image.shape[0] and width <= image.shape[1]
    values = image.astype(np.float32)
    values = np.asarray(sum(_terms(values, *taps(width, image.shape[1], interp, shrinks), 1)))
    values = np.asarray(sum(_terms(values, *taps(height, image.shape[0], interp, shrinks), 2)))
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
            "Images of this dtype cannot be resized", expected="uint8 or a floating-point dtype", got=dtype
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
    deviation=Deviation("has a gradient, where MXNet's stops with an error", "training"),
    doc="An image (h, w, c), or a batch (n, h, w, c), in another size, as OpenCV resizes: without smoothing before it "
    "shrinks, but for the means of areas; bytes are its bytes.",
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


class ImageCropParams(Params):
    x: int = param(ge=0, doc="first column")
    y: int = param(ge=0, doc="first row")
    width: int = param(ge=1, doc="number of columns")
    height: int = param(ge=1, doc="number of rows")


def _crop_shapes(p: ImageCropParams, ins: Shapes, outs: Shapes):
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
    params=ImageCropParams,
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
