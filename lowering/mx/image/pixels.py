"""Images as arrays (height, width, channels), in the host's memory: decoded, in another size, with a border.

OpenCV does what MXNet's does where it is installed (extra `data`); else Pillow decodes, and NumPy resizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowering.messages.counts import check_count, checks_flags
from lowering.mx.ndarray.array import NDArray, in_current_dialect
from lowering.mx.ndarray.creation import array
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import CallError, MissingExtraError, ParamError, RecordFormatError
from symjax_nnvm.io.files import StrPath, read_bounded
from symjax_nnvm.io.guess import require_file
from symjax_nnvm.mxnet.images import decode_flagged, opencv, swap_red_and_blue
from symjax_nnvm.ops.image.resize import resized

__all__ = ["copyMakeBorder", "imdecode", "imread", "imresize"]

_MAX_FILE = 1 << 30
"""Bytes of an image's file, at most."""

_BORDERS = ("constant", "edge", "symmetric", "wrap", "reflect")
"""NumPy's names of OpenCV's borders, by their numbers."""

_ISOLATED = 16
"""OpenCV's flag for borders that ignore pixels around a part of an image: images here are not parts."""


def pixels(image: Any) -> np.ndarray:
    """An image (h, w, c) in NumPy's memory, which is not to be written. Raises CallError for another rank."""
    pixel_values = np.asarray(image)
    if pixel_values.ndim != 3:
        raise CallError("An image must be an array (height, width, channels)", got=f"shape {pixel_values.shape}")
    return pixel_values


def as_image(values: np.ndarray, like: Any = None, out: NDArray | None = None) -> NDArray:
    """An NDArray of an image, in its dtype, on the context of another one; or what is written to `out`."""
    if out is None:
        context = like.context if isinstance(like, NDArray) else None
        return in_current_dialect(array(values, context, values.dtype))
    if out.shape != values.shape or np.dtype(out.dtype) != values.dtype:
        expected = f"{values.dtype} {values.shape}"
        raise CallError("out= does not fit the image", expected=expected, got=f"{np.dtype(out.dtype)} {out.shape}")
    out[:] = values
    return out


@checks_flags
def imdecode(buf: Any, flag: int = 1, to_rgb: bool | int = 1, out: NDArray | None = None) -> NDArray:
    """Return the image in a file's bytes (JPEG, PNG, …): uint8 (height, width, 3), or (height, width, 1) for flag 0.

    Its EXIF orientation is ignored. A few bytes may be an image of 2³⁰ pixels, OpenCV's limit, in memory
    of four times its pixels; OPENCV_IO_MAX_IMAGE_PIXELS in the environment sets another limit.

    Args:
        buf: the bytes, or an array uint8 (n,) of them.
        flag: 1 for colour, 0 for grey.
        to_rgb: the channels are red, green, blue; False: blue, green, red.
        out: an array to write.

    Raises:
        RecordFormatError: the bytes are not an image.
        MissingExtraError: neither OpenCV nor Pillow is installed.
        ParamError: an argument has a wrong value.
        CallError: an argument has the wrong type.
    """
    if not isinstance(buf, bytes | bytearray | np.ndarray | NDArray):
        problem = "buf must be of type bytes, bytearray or numpy.ndarray"
        raise ParamError(problem, got=type(buf).__name__, fix="Open the file as 'rb', or use mx.image.imread(path).")
    if flag < 0:
        raise ParamError("No such flag", expected="0 for grey, 1 for colour", got=flag)
    data = bytes(buf) if isinstance(buf, bytes | bytearray) else np.asarray(buf).astype(np.uint8).tobytes()
    if not data:
        raise RecordFormatError("Input cannot be an empty buffer")
    image = decode_flagged(data, flag, "The image", turned=False)
    image = image.reshape(*image.shape[:2], -1)
    return as_image(swap_red_and_blue(image) if to_rgb and flag else image, out=out)


@explained_by(imdecode)
def imread(filename: StrPath, flag: int = 1, to_rgb: bool | int = True, out: NDArray | None = None) -> NDArray:
    """Return the image in a file, as `imdecode` does; it raises what that raises.

    Args:
        filename: the file's path.

    Raises:
        ModelNotFoundError: there is no such file.
        FileError: the path is not a regular file.
        OSError: the file cannot be read.
    """
    require_file(filename, "filename")
    return imdecode(read_bounded(filename, _MAX_FILE, "an image", RecordFormatError), flag, to_rgb, out)


def imresize(src: NDArray | np.ndarray, w: int, h: int, interp: int = 1, out: NDArray | None = None) -> NDArray:
    """Return an image of another size, in its dtype.

    Args:
        src: the image (h, w, c).
        w: the width.
        h: the height.
        interp: 0 takes the nearest pixel, 1 is linear, 2 cubic, 3 the mean of areas, 4 Lanczos'.
        out: an array to write.

    Raises:
        ParamError: an argument has a wrong value.
        CallError: an argument has the wrong type.
    """
    width, height = check_count(w, "w"), check_count(h, "h")
    if width * height >= 2**31:
        raise ParamError("The image has too many pixels", param="w, h", expected="less than 2³¹ of them", got=(w, h))
    if interp not in range(5):
        raise ParamError("Unknown interp method", param="interp", expected="0 to 4", got=interp)
    image = pixels(src)
    if 0 in image.shape:
        raise CallError("An image without pixels cannot be resized", got=f"shape {image.shape}")
    return as_image(_resized(image, width, height, interp), src, out)


def _resized(image: np.ndarray, width: int, height: int, interp: int) -> np.ndarray:
    if image.dtype in (np.uint8, np.float32) and image.shape[2] <= 4:  # what OpenCV takes in every method
        try:
            output = opencv().resize(np.ascontiguousarray(image), (width, height), interpolation=interp)
            return output.reshape(height, width, image.shape[2])
        except MissingExtraError:
            pass
    return resized(image, height, width, interp)


def copyMakeBorder(
    src: NDArray | np.ndarray,
    top: int,
    bot: int,
    left: int,
    right: int,
    type: int = 0,
    value: float = 0.0,
    values: Any = (),
    out: NDArray | None = None,
) -> NDArray:
    """Return an image with rows and columns around it.

    MXNet's page has other numbers for `type`, which its function does not have.

    Args:
        src: the image (h, w, c).
        top: the number of rows above.
        bot: the number of rows below.
        left: the number of columns to the left.
        right: the number of columns to the right.
        type: OpenCV's number: 0 fills with numbers, 1 repeats the last pixels, 2 mirrors the image (fedcba|abcdef), 3
            repeats it, 4 mirrors it about its last pixels (gfedcb|abcdef).
        value: the number where `values` has none.
        values: the number of each channel.
        out: an array to write.

    Raises:
        ParamError: an argument has a wrong value.
        CallError: an argument has the wrong type.
    """
    image, kind = pixels(src), type & ~_ISOLATED
    if kind not in range(5) or min(top, bot, left, right) < 0:
        got = f"type={type}, ({top}, {bot}, {left}, {right})"
        raise ParamError("No such border", expected="a type from 0 to 4, and widths from 0 on", got=got)
    around = (top, bot), (left, right), (0, 0)
    if kind:
        return as_image(np.pad(image, around, _BORDERS[kind]), src, out)
    channels = tuple(np.atleast_1d(values))[: image.shape[2]]
    colour = np.array([*channels, *[value] * (image.shape[2] - len(channels))]).astype(image.dtype)
    filled = np.broadcast_to(colour, (image.shape[0] + top + bot, image.shape[1] + left + right, image.shape[2])).copy()
    filled[top : top + image.shape[0], left : left + image.shape[1]] = image
    return as_image(filled, src, out)
