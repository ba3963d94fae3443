"""`mx.nd.imdecode`, MXNet's older function: an image in planes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array
from symjax_nnvm.errors import CallError
from symjax_nnvm.mxnet.images import decode_flagged


def imdecode(
    str_img: bytes,
    clip_rect: Sequence[int] = (0, 0, 0, 0),
    out: NDArray | None = None,
    index: int = 0,
    channels: int = 3,
    mean: NDArray | None = None,
) -> NDArray:
    """The image in some bytes as planes (channels, height, width) of blue, green and red, float32 or of mean's dtype.

    clip_rect: left, top, right and bottom of the part that is taken, in pixels; a height of 0 is all. out: an array for
    it, (c, h, w), or (n, c, h, w), of which it becomes number `index`. channels: the first ones of the file's; 1 is
    grey. mean: (c, h, w), is subtracted. `mx.img.imdecode` is the newer function. Raises CallError, RecordFormatError,
    MissingExtraError.
    """
    pixels = decode_flagged(bytes(str_img), 0 if channels == 1 else -1, "The image")
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    left, top, right, bottom = (int(edge) for edge in clip_rect)
    if bottom == top:
        left, top, right, bottom = 0, 0, pixels.shape[1], pixels.shape[0]
    if not (0 <= left < right <= pixels.shape[1] and 0 <= top < bottom <= pixels.shape[0]):
        expected = f"a part of {pixels.shape[1]} × {pixels.shape[0]} pixels"
        raise CallError(
            "The crop does not lie in the image", param="clip_rect", expected=expected, got=tuple(clip_rect)
        )
    if not 1 <= channels <= pixels.shape[2]:
        raise CallError(
            "The image has fewer channels",
            param="channels",
            expected=f"1 to {pixels.shape[2]}",
            got=channels,
        )
    planes: Any = pixels[top:bottom, left:right, :channels].transpose(2, 0, 1)
    for name, operand in (("mean", mean), ("out", out)):
        if operand is not None and operand.shape[operand.ndim - 3 :] != planes.shape:
            raise CallError(
                f"The array {name}= does not have the shape of the image", expected=planes.shape, got=operand.shape
            )
    dtype = np.float32 if mean is None else mean.dtype
    planes = planes.astype(dtype) - (0 if mean is None else mean.asnumpy())
    if out is None:
        return array(planes, dtype=dtype)
    out[index if out.ndim == 4 else slice(None)] = planes
    return out
