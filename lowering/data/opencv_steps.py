"""Steps that every augmenter of MXNet's has: sizes by OpenCV's interpolations, borders, hue.

Images are uint8 (height, width, channels) in blue, green, red, as OpenCV has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lowering.data.stable_draws import Draws
from symjax_nnvm.errors import TrainingError
from symjax_nnvm.mxnet.images import opencv

AUTO, RANDOM = 9, 10
"""Values of inter_method that are not interpolation but choose one."""


def interpolation(image: np.ndarray, width: int, height: int, inter_method: int, draws: Draws) -> int:
    """Return OpenCV's number of an interpolation, which MXNet's is but for two."""
    if inter_method == RANDOM:
        return draws.whole(0, 4)
    if inter_method != AUTO:
        return inter_method
    before = image.shape
    if width > before[1] and height > before[0]:
        return opencv().INTER_CUBIC
    return opencv().INTER_AREA if width < before[1] and height < before[0] else opencv().INTER_LINEAR


def resized(image: np.ndarray, width: int, height: int, inter_method: int, draws: Draws) -> np.ndarray:
    """Return the image in another size. Raises TrainingError for one of no pixels."""
    if width < 1 or height < 1:
        raise TrainingError(
            "An image cannot be resized to this size", expected="at least 1 pixel", got=f"{width} × {height}"
        )
    method = interpolation(image, width, height, inter_method, draws)
    return with_channels(opencv().resize(image, (width, height), interpolation=method), image)


def with_shorter_edge(image: np.ndarray, length: int, inter_method: int, draws: Draws) -> np.ndarray:
    """Return the image, its shorter edge so long."""
    height, width = image.shape[:2]
    if height > width:
        return resized(image, length, length * height // width, inter_method, draws)
    return resized(image, length * width // height, length, inter_method, draws)


def with_border(image: np.ndarray, top: int, bottom: int, left: int, right: int, value: list[int]) -> np.ndarray:
    """Return the image with a border of rows and columns of one colour."""
    border = opencv().BORDER_CONSTANT
    return with_channels(opencv().copyMakeBorder(image, top, bottom, left, right, border, value=value), image)


def with_channels(image: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return the image with the axis of channels, which OpenCV drops from images of one channel."""
    return image.reshape(*image.shape[:2], like.shape[2])


def saturated(values: Any) -> np.ndarray:
    """Return numbers as bytes: rounded, those beyond the ends at the ends."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def with_hue(image: np.ndarray, hue: int, saturation: int, lightness: int) -> np.ndarray:
    """Return the image with hue, saturation and lightness moved by one number each."""
    cv2 = opencv()
    values = cv2.cvtColor(image, cv2.COLOR_BGR2HLS).astype(np.int16) + np.array([hue, lightness, saturation], np.int16)
    return cv2.cvtColor(np.clip(values, 0, [180, 255, 255]).astype(np.uint8), cv2.COLOR_HLS2BGR)
