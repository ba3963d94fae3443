"""Images as bytes and as arrays, by OpenCV or Pillow: whichever is installed, OpenCV, which MXNet uses, first."""

from __future__ import annotations

import io
from typing import Any, Literal

import numpy as np

from symjax_nnvm.errors import MissingExtraError, RecordFormatError, missing_extra

Decoder = Literal["opencv", "pillow"]

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def opencv() -> Any:
    """Return the module of OpenCV. Raises MissingExtraError."""
    try:
        import cv2
    except ImportError:
        raise missing_extra("This needs OpenCV, which MXNet uses to decode and resize images", "data") from None
    return cv2


def _pillow() -> Any:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise missing_extra("Images need OpenCV or Pillow", "data") from None
    return Image, ImageOps


def _chosen(decoder: Decoder | None) -> Decoder:
    if decoder not in (None, "opencv", "pillow"):
        raise RecordFormatError("Unknown decoder", expected="'opencv', 'pillow' or None", got=repr(decoder))
    if decoder is None:
        try:
            opencv()
        except MissingExtraError:
            return "pillow"
    return decoder or "opencv"


def decode_image(
    data: bytes, channels: int = 3, decoder: Decoder | None = None, *, where: str = "The image"
) -> np.ndarray:
    """Decode an image (JPEG, PNG, …) as uint8 (height, width, channels): red, green, blue; 1 channel is grey, the 4th
    alpha.

    It is turned by its EXIF orientation, as in MXNet's ImageRecordIter (and not in `mx.image.imdecode`).
    decoder: "opencv" gives the bytes that MXNet's gives; "pillow" gives the same ones where both are built with
    libjpeg-turbo, as the wheels on PyPI are, but for the grey of coloured images; None is OpenCV where it is installed,
    else Pillow. where: the image's name in errors. Raises RecordFormatError, MissingExtraError.
    """
    if channels not in _MODES:
        raise RecordFormatError(
            f"{where} cannot be decoded to this number of channels", expected="1, 3 or 4", got=channels
        )
    if _chosen(decoder) == "opencv":
        return swap_red_and_blue(decode_bgr(data, channels, where))
    image, operations = _pillow()
    try:
        with image.open(io.BytesIO(data)) as opened:
            if channels == 4 and opened.mode != "RGBA":
                raise _without_alpha(where)
            pixels = np.asarray(operations.exif_transpose(opened).convert(_MODES[channels]))
            return pixels.reshape(*pixels.shape[:2], channels)
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as error:
        if isinstance(error, RecordFormatError):
            raise
        raise _undecodable(where, data, str(error)) from None


def decode_bgr(data: bytes, channels: int, where: str) -> np.ndarray:
    """Return the image as OpenCV has it: uint8 (height, width, channels), blue, green, red."""
    cv2 = opencv()
    flags = {1: cv2.IMREAD_GRAYSCALE, 3: cv2.IMREAD_COLOR, 4: cv2.IMREAD_UNCHANGED}
    try:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flags[channels]) if data else None
    except cv2.error as error:  # of more pixels than OpenCV decodes
        raise _undecodable(where, data, error.err) from None
    if image is None:
        raise _undecodable(where, data, "it is damaged, or OpenCV does not know its format")
    image = image.reshape(*image.shape[:2], -1)
    if image.shape[2] != channels or image.dtype != np.uint8:
        raise _without_alpha(where)
    return image


def decode_flagged(data: bytes, flag: int, where: str, *, turned: bool = True) -> np.ndarray:
    """Return an image as `cv2.imdecode(data, flag)` gives it: uint8 in blue, green, red, and of grey (height, width).

    flag: 0 for grey, a positive number for 3 channels, a negative one for the file's own channels. turned: whether it
    is turned by its EXIF orientation, unless flag is negative. Raises RecordFormatError, MissingExtraError.
    """
    if _chosen(None) == "opencv":
        cv2 = opencv()
        orientation_flag = 0 if turned or flag < 0 else cv2.IMREAD_IGNORE_ORIENTATION
        try:
            decoded = cv2.imdecode(np.frombuffer(data, np.uint8), flag | orientation_flag) if data else None
        except cv2.error as error:
            raise _undecodable(where, data, error.err) from None
        if decoded is None:
            raise _undecodable(where, data, "it is damaged, or OpenCV does not know its format")
        return decoded
    image, operations = _pillow()
    try:
        with image.open(io.BytesIO(data)) as opened:
            if flag == 0:
                opened.draft("L", opened.size)  # a JPEG's own grey, which OpenCV takes
            upright = operations.exif_transpose(opened) if turned and flag >= 0 else opened
            own = {"1": "L", "L": "L", "RGBA": "RGBA", "LA": "RGBA"}.get(opened.mode, "RGB")
            pixels = np.asarray(upright.convert("L" if flag == 0 else "RGB" if flag > 0 else own))
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as error:
        raise _undecodable(where, data, str(error)) from None
    return pixels if pixels.ndim == 2 else np.ascontiguousarray(swap_red_and_blue(pixels))


def encode_image(image: np.ndarray, format: str = ".jpg", quality: int = 95, decoder: Decoder | None = None) -> bytes:
    """Return the bytes of an image, uint8 (height, width, 3) in red, green, blue, or 1 or 4 channels.

    format: ".jpg" or ".png". quality: the quality of a JPEG, 1 to 100; of a PNG, how hard it is compressed, 1 to 9.
    Raises RecordFormatError, MissingExtraError.
    """
    image = np.asarray(image)
    image = image[..., None] if image.ndim == 2 else image
    if image.ndim != 3 or image.shape[2] not in _MODES or image.dtype != np.uint8 or 0 in image.shape:
        got = f"{image.dtype} {image.shape}"
        raise RecordFormatError("No image", expected="uint8 (height, width, 1, 3 or 4)", got=got)
    if format not in (".jpg", ".png"):
        raise RecordFormatError("Unknown format of images", expected="'.jpg' or '.png'", got=repr(format))
    quality = quality if format == ".jpg" else min(quality, 9)
    if _chosen(decoder) == "opencv":
        cv2 = opencv()
        option = cv2.IMWRITE_JPEG_QUALITY if format == ".jpg" else cv2.IMWRITE_PNG_COMPRESSION
        return cv2.imencode(format, np.ascontiguousarray(swap_red_and_blue(image)), [option, quality])[1].tobytes()
    pixels = _pillow()[0].fromarray(image[..., 0] if image.shape[2] == 1 else image)
    out = io.BytesIO()
    options: dict[str, Any] = {"quality": quality} if format == ".jpg" else {"compress_level": quality}
    pixels.save(out, "JPEG" if format == ".jpg" else "PNG", **options)
    return out.getvalue()


def swap_red_and_blue(image: np.ndarray) -> np.ndarray:
    """Return an image (height, width, 1, 3 or 4) with red and blue exchanged; alpha stays the last."""
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[image.shape[2]]
    return image[..., order]


def _without_alpha(where: str) -> RecordFormatError:
    return RecordFormatError(
        f"{where} does not have 4 channels of 8 bits",
        fix="Ask for 3 channels, or for 1: channels=3, data_shape=(3, …).",
    )


def _undecodable(where: str, data: bytes, why: str) -> RecordFormatError:
    return RecordFormatError(
        f"{where} cannot be decoded: {why.strip() or 'it is damaged'}",
        got=f"{len(data)} bytes that begin with {data[:8]!r}",
        fix="Leave the record out with file.select(numbers), or make the file again without it.",
    )
