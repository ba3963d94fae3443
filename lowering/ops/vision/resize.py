"""JAX rules of bilinear resizing, adaptive average pooling and cropping, and of their transposes.

Resizing and pooling are a small matrix along each axis, made with NumPy: Y = A X Bᵀ. Matrix products are fast
everywhere, and their transposes are matrix products again, where indices would need a scatter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lowering.registry import lowers
from symjax_nnvm.ops.vision import resize as ops

Array = jax.Array


def _along_axes(x: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """rows (h', h) and columns (w', w) applied to the last axes of x (n, c, h, w), the cheaper order first.

    In full precision, which accelerators leave to the caller; half precision is computed in float32.
    """
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    steps = [(2, rows), (3, columns)]
    if _cost(x.shape, steps[::-1]) < _cost(x.shape, steps):
        steps.reverse()
    for axis, matrix in steps:
        wide = _apply(wide, matrix, axis)
    return wide.astype(x.dtype)


def _cost(shape: tuple[int, ...], steps: list[tuple[int, np.ndarray]]) -> int:
    """Multiplications of one image channel."""
    sizes = {2: shape[2], 3: shape[3]}
    total = 0
    for axis, matrix in steps:
        total += math.prod(sizes.values()) * len(matrix)
        sizes[axis] = len(matrix)
    return total


def _apply(x: Array, matrix: np.ndarray, axis: int) -> Array:
    if matrix.shape[0] == matrix.shape[1] and (matrix == np.eye(len(matrix))).all():
        return x
    subscripts = "nchw,gh->ncgw" if axis == 2 else "nchw,vw->nchv"
    return jnp.einsum(subscripts, x, matrix.astype(x.dtype), precision=lax.Precision.HIGHEST)


# -- bilinear resizing -----------------------------------------------------------------------------------------------


def _interpolation(size: int, new: int, *, align_corners: bool) -> np.ndarray:
    """(new, size): what each new element takes of each old one."""
    place = np.arange(new, dtype=np.float64)
    if align_corners:
        place *= (size - 1) / (new - 1) if new > 1 else 0.0
    else:
        place = np.maximum((place + 0.5) * (size / new) - 0.5, 0.0)
    low = np.minimum(place.astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    matrix = np.zeros((new, size))
    np.add.at(matrix, (np.arange(new), low), 1 - (place - low))
    np.add.at(matrix, (np.arange(new), high), place - low)
    return matrix


def _interpolations(p: ops.BilinearResizeParams, sizes: Sequence[int], new: Sequence[int | None]) -> list[np.ndarray]:
    """The matrices of rows and columns."""
    return [
        _interpolation(a, b, align_corners=p.align_corners)
        for a, b in zip(sizes, new, strict=True)
        if b is not None  # of known sizes comes a known one
    ]


@lowers("_contrib_BilinearResize2D")
def _bilinear_resize(p: ops.BilinearResizeParams, data: Array, like: Array | None = None) -> Array:
    sizes = ops.bilinear_sizes(p, data.shape, None if like is None else like.shape)
    return _along_axes(data, *_interpolations(p, data.shape[2:], sizes))


@lowers("_backward_contrib_BilinearResize2D")
def _bilinear_resize_gradient(p: ops.BilinearResizeParams, ograd: Array, data: Array) -> Array:
    return _along_axes(ograd, *(matrix.T for matrix in _interpolations(p, data.shape[2:], ograd.shape[2:])))


# -- adaptive average pooling ----------------------------------------------------------------------------------------


def _means(size: int, new: int) -> np.ndarray:
    """(new, size): each new element is the mean of a window of old ones."""
    number = np.arange(new)
    begin, end = number * size // new, -(-(number + 1) * size // new)
    old = np.arange(size)
    inside = (old >= begin[:, None]) & (old < end[:, None])
    return inside / (end - begin)[:, None]


@lowers("_contrib_AdaptiveAvgPooling2D")
def _adaptive_avg_pooling(p: ops.AdaptiveAvgPoolingParams, data: Array) -> Array:
    if p.sizes == (1, 1):
        return jnp.mean(data, (2, 3), keepdims=True)
    return _along_axes(data, *(_means(size, new) for size, new in zip(data.shape[2:], p.sizes, strict=True)))


@lowers("_backward_contrib_AdaptiveAvgPooling2D")
def _adaptive_avg_pooling_gradient(p: ops.AdaptiveAvgPoolingParams, ograd: Array, data: Array) -> Array:
    if p.sizes == (1, 1):
        return jnp.broadcast_to(ograd / math.prod(data.shape[2:]), data.shape)
    return _along_axes(ograd, *(_means(size, new).T for size, new in zip(data.shape[2:], p.sizes, strict=True)))


# -- Crop ------------------------------------------------------------------------------------------------------------


def _begin(p: ops.CropParams, data: tuple[int, ...], part: tuple[int, ...]) -> list[int]:
    return [0, 0, *ops.crop_begin(p, (data[2], data[3]), (part[2], part[3]))]


@lowers("Crop")
def _crop(p: ops.CropParams, data: Array, like: Array | None = None) -> Array:
    shape = (*data.shape[:2], *(p.h_w if like is None else like.shape[2:]))
    begin = _begin(p, data.shape, shape)
    return lax.slice(data, begin, [a + d for a, d in zip(begin, shape, strict=True)])


@lowers("_backward_Crop")
def _crop_gradient(p: ops.CropParams, ograd: Array, data: Array) -> Array:
    begin = _begin(p, data.shape, ograd.shape)
    edges = [(a, d - a - k, 0) for a, d, k in zip(begin, data.shape, ograd.shape, strict=True)]
    return lax.pad(ograd, np.asarray(0, ograd.dtype), edges)
