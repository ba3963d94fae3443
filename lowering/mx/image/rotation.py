"""Images (channels, height, width) turned about their middle."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from lowering.mx import ndarray
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array
from symjax_nnvm.errors import CallError, ParamError

__all__ = ["imrotate", "random_rotate"]


def imrotate(src: NDArray, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """Return images float32 (c, h, w) or (n, c, h, w), turned; what was outside of them is 0.

    Args:
        src: the images.
        rotation_degrees: a number in degrees, or for a batch an array (n,) of them.
        zoom_in: enlarge until nothing outside is visible.
        zoom_out: shrink until the whole image is visible.

    Raises:
        ParamError: an argument has a wrong value; the error is a ValueError, too.
        CallError: an argument has the wrong type; the error is a TypeError, too.
    """
    if zoom_in and zoom_out:
        raise ParamError("`zoom_in` and `zoom_out` cannot be both True")
    if src.dtype is not np.float32:
        raise CallError("Only `float32` images are supported by this function", got=np.dtype(src.dtype).name)
    if src.ndim not in (3, 4):
        raise ParamError("Only 3D and 4D are supported by this function", got=f"shape {src.shape}")
    if src.ndim == 3:
        if not isinstance(rotation_degrees, Number):
            problem = "When a single image is passed the rotation angle is required to be a scalar."
            raise CallError(problem, got=type(rotation_degrees).__name__)
        return imrotate(src.expand_dims(axis=0), rotation_degrees, zoom_in, zoom_out)[0]
    count = len(src)
    degrees = np.asarray(rotation_degrees, np.float32)
    degrees = np.full(count, degrees) if isinstance(rotation_degrees, Number) else degrees
    if len(degrees) != count:
        problem = "The number of images must be equal to the number of rotation angles"
        raise ParamError(problem, expected=count, got=len(degrees))
    grid = _grid(np.deg2rad(degrees), src.shape[2], src.shape[3], -1 if zoom_in else int(zoom_out))
    return ndarray.BilinearSampler(src, array(grid, src.context))


def _grid(angles: np.ndarray, height: int, width: int, zoom: int) -> np.ndarray:
    """Return where each pixel comes from (n, 2, h, w), float32, from -1 to 1. zoom: -1 enlarges, 1 makes smaller."""
    cos, sin = (turn(angles)[:, None, None] for turn in (np.cos, np.sin))
    x, y = np.meshgrid(np.arange(width) - (width - 1) / 2, np.arange(height) - (height - 1) / 2)
    grid = np.stack([(x * cos - y * sin) / ((width - 1) / 2), (x * sin + y * cos) / ((height - 1) / 2)], 1)
    if zoom:
        cos, sin = np.cos(np.abs(angles)), np.sin(np.abs(angles))
        wide = np.maximum(np.abs(width * cos - height * sin), np.abs(width * cos + height * sin)) / width
        high = np.maximum(np.abs(height * cos + width * sin), np.abs(height * cos - width * sin)) / height
        scale = np.maximum(wide, high)
        grid = grid * (scale if zoom > 0 else 1 / scale)[:, None, None, None]
    return grid.astype(np.float32)


def random_rotate(src: NDArray, angle_limits: Any, zoom_in: bool = False, zoom_out: bool = False) -> NDArray:
    """Return images turned by random angles, which NumPy's global generator draws.

    Args:
        src: as in `imrotate`.
        angle_limits: the lowest and the highest angle in degrees.
        zoom_in: as in `imrotate`.
        zoom_out: as in `imrotate`.
    """
    size = None if src.ndim == 3 else src.shape[0]
    return imrotate(src, np.random.uniform(*angle_limits, size=size), zoom_in, zoom_out)
