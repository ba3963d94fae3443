"""Parts of images, and images in the sizes that networks take. What is drawn, Python's `random` draws, as in MXNet."""

from __future__ import annotations

import math
import random
import warnings
from typing import Any

import numpy as np

from lowering.messages.counts import check_count, check_counts
from lowering.mx.image.pixels import as_image, imresize, pixels
from lowering.mx.ndarray.array import NDArray
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import CallError, ParamError

__all__ = [
    "center_crop",
    "color_normalize",
    "fixed_crop",
    "random_crop",
    "random_size_crop",
    "resize_short",
    "scale_down",
]

Size = tuple[int, int]
"""(width, height)."""

Place = tuple[int, int, int, int]
"""(x, y, width, height) of a part of an image."""

_AUTOMATIC, _ANY = 9, 10
_ATTEMPTS = 10
"""At a random crop that is within the image."""


def interpolation(interp: int, sizes: tuple[int, ...] = ()) -> int:
    """Return OpenCV's method, 0 to 4. 9 means cubic to enlarge, areas to shrink, else linear; 10 means any.

    sizes: (old height, old width, new height, new width); without them 9 is cubic. Raises ParamError for other numbers.
    """
    if interp == _AUTOMATIC:
        if not sizes:
            return 2
        old_height, old_width, height, width = sizes
        if height > old_height and width > old_width:
            return 2
        return 3 if height < old_height and width < old_width else 1
    if interp == _ANY:
        return random.randint(0, 4)
    if interp not in range(5):
        expected = "0 to 4, 9 for one that fits the sizes, 10 for any"
        raise ParamError(f"Unknown interp method {interp}", expected=expected, got=interp)
    return interp


def scale_down(src_size: Size, size: Size) -> Size:
    """Return a size, made smaller in its proportions until it fits into an image.

    Args:
        src_size: (width, height) of the image.
        size: (width, height).
    """
    width, height = map(float, size)
    if src_size[1] < height:
        width, height = width * src_size[1] / height, src_size[1]
    if src_size[0] < width:
        width, height = src_size[0], height * src_size[0] / width
    return int(width), int(height)


def resize_short(src: NDArray | np.ndarray, size: int, interp: int = 2) -> NDArray:
    """Return an image whose shorter edge has `size` pixels.

    Args:
        src: the image (h, w, c).
        size: the number of pixels.
        interp: the method of resizing: 0 to 4 as in `mx.image.imresize`, 9 for a fitting one, 10 for a random one.
    """
    height, width, _ = src.shape
    size = check_count(size, "size")
    new = (size * height // width, size) if height > width else (size, size * width // height)
    return imresize(src, new[1], new[0], interp=interpolation(interp, (height, width, *new)))


def fixed_crop(
    src: NDArray | np.ndarray, x0: int, y0: int, w: int, h: int, size: Size | None = None, interp: int = 2
) -> NDArray:
    """Return a part of an image, resized if `size` is another size.

    Args:
        src: the image (h, w, c).
        x0: the left edge of the part.
        y0: its upper edge.
        w: its width.
        h: its height.
        size: (width, height) of the result; None not to resize.
        interp: the method of resizing: 0 to 4 as in `mx.image.imresize`, 9 for a fitting one, 10 for a random one.

    Raises:
        ParamError: the part has no pixels.
    """
    check_counts((w, h), "w, h")
    cut = pixels(src)[y0 : y0 + h, x0 : x0 + w]
    if not cut.size:
        got = f"{w} × {h} from ({x0}, {y0})"
        raise ParamError("The crop contains no pixels", expected=f"a part of an image of shape {src.shape}", got=got)
    part = as_image(np.ascontiguousarray(cut), src)
    if size is None or (w, h) == tuple(size):
        return part
    return imresize(part, *size, interp=interpolation(interp, (h, w, size[1], size[0])))


def _part(src: NDArray | np.ndarray, size: Size, place: tuple[int, int, Any], interp: int) -> tuple[NDArray, Place]:
    x, y, (width, height) = place
    return fixed_crop(src, x, y, width, height, size, interp), (x, y, width, height)


def random_crop(src: NDArray | np.ndarray, size: Size, interp: int = 2) -> tuple[NDArray, Place]:
    """Return a part of an image anywhere in it, and its place; a smaller image is enlarged.

    Args:
        src: the image (h, w, c).
        size: (width, height) of the part.
        interp: the method of resizing: 0 to 4 as in `mx.image.imresize`, 9 for a fitting one, 10 for a random one.
    """
    height, width, _ = src.shape
    check_counts(size, "size")
    part = scale_down((width, height), size)
    x = random.randint(0, width - part[0])
    return _part(src, size, (x, random.randint(0, height - part[1]), part), interp)


@explained_by(random_crop)
def center_crop(src: NDArray | np.ndarray, size: Size, interp: int = 2) -> tuple[NDArray, Place]:
    """Return the middle of an image, and its place; a smaller image is enlarged."""
    height, width, _ = src.shape
    check_counts(size, "size")
    part = scale_down((width, height), size)
    return _part(src, size, (int((width - part[0]) / 2), int((height - part[1]) / 2), part), interp)


@explained_by(random_crop)
def random_size_crop(
    src: NDArray | np.ndarray, size: Size, area: Any, ratio: tuple[float, float], interp: int = 2, **kwargs: Any
) -> tuple[NDArray, Place]:
    """Return a part of an image of random area and shape anywhere in it, resized, and its place.

    If no drawn part fits into the image, it is the middle.

    Args:
        size: (width, height) of the result.
        area: the smallest and the largest part of the image's area, or the smallest.
        ratio: the smallest and the largest width for a height of 1.
        kwargs: `min_area`, MXNet's older name of `area`.

    Raises:
        CallError: a keyword is another one.
    """
    if "min_area" in kwargs:
        warnings.warn("`min_area` is deprecated. Please use `area` instead.", DeprecationWarning, stacklevel=2)
        area = kwargs.pop("min_area")
    if kwargs:
        raise CallError("unexpected keyword arguments for `random_size_crop`.", got=", ".join(kwargs))
    height, width, _ = src.shape
    least, most = area if isinstance(area, list | tuple) else (area, 1.0)
    for _ in range(_ATTEMPTS):
        pixel_count = random.uniform(least, most) * height * width
        shape = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        part = round(math.sqrt(pixel_count * shape)), round(math.sqrt(pixel_count / shape))
        if part[0] <= width and part[1] <= height:
            x = random.randint(0, width - part[0])
            return _part(src, size, (x, random.randint(0, height - part[1]), part), interp)
    return center_crop(src, size, interp)


def color_normalize(src: NDArray | np.ndarray, mean: Any, std: Any = None) -> Any:
    """Subtract a mean from an image and divide it by a deviation, in place.

    Args:
        src: the image (h, w, c).
        mean: a number for each channel, or None.
        std: a number for each channel, or None.
    """
    if mean is not None:
        src -= mean
    if std is not None:
        src /= std
    return src
