"""JAX rules of bilinear resizing, adaptive average pooling and cropping, and of their transposes.

Resizing and pooling are a sparse matrix along each axis, made with NumPy: Y = A X Bᵀ. A small one is multiplied
densely: matrix products are fast everywhere, and their transposes are matrix products again. A large one is applied
element by element, since only a few of each row are not zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ir.rules.size_symbols import is_open
from symjax_nnvm.ops.vision import resize as ops


@dataclass(frozen=True)
class Matrix:
    """The elements of a matrix (new, old) that are not zero: weights (k,) float64 at rows and columns (k,)."""

    new: int
    old: int
    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray

    @property
    def T(self) -> Matrix:
        """The transpose."""
        return Matrix(self.old, self.new, self.columns, self.rows, self.weights)

    @property
    def is_identity(self) -> bool:
        """Whether it changes nothing."""
        same = self.new == self.old == len(self.weights) and (self.rows == self.columns).all()
        return bool(same and (self.weights == 1).all())

    def apply(self, x: Array, axis: int) -> Array:
        """The matrix applied along an axis of x (n, c, h, w): 2 or 3."""
        if self.is_identity:
            return x
        weights = self.weights.astype(x.dtype)
        if self.new * self.old <= ops.DENSE:
            matrix = np.zeros((self.new, self.old), x.dtype)
            np.add.at(matrix, (self.rows, self.columns), weights)
            subscripts = "nchw,gh->ncgw" if axis == 2 else "nchw,vw->nchv"
            return jnp.einsum(subscripts, x, matrix, precision=lax.Precision.HIGHEST)
        x = jnp.moveaxis(x, axis, 0)
        terms = x[self.columns] * weights[:, None, None, None]
        return jnp.moveaxis(lax.full((self.new, *x.shape[1:]), 0, x.dtype).at[self.rows].add(terms), 0, axis)


def along_axes(
    x: Array,
    sizes: Sequence[int],
    matrix: Callable[[int, int], Matrix],
    of_open_sizes: Callable[[Array, int, int], Array],
) -> Array:
    """x (n, c, h, w) → (n, c, *sizes): `matrix(new, old)` applied to each of the last axes, the cheaper order first.

    of_open_sizes: the same for x, an axis and its new size, where no matrix can be made as a size was left open.
    In full precision, which accelerators leave to the caller; half precision is computed in float32.
    """
    shape = (*x.shape[:2], *sizes)
    if 0 in x.shape or 0 in shape:  # the other sizes do not matter
        return lax.full(shape, 0, x.dtype)
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    if any(is_open(size) for size in (*x.shape[2:], *sizes)):
        for axis in (2, 3):
            wide = of_open_sizes(wide, axis, shape[axis])
        return wide.astype(x.dtype)
    steps = [(axis, matrix(shape[axis], x.shape[axis])) for axis in (2, 3)]
    if _cost(x.shape, steps[::-1]) < _cost(x.shape, steps):
        steps.reverse()
    for axis, weights in steps:
        wide = weights.apply(wide, axis)
    return wide.astype(x.dtype)


def _cost(shape: tuple[int, ...], steps: list[tuple[int, Matrix]]) -> int:
    """Return multiplications of one image channel by dense matrices."""
    sizes = {2: shape[2], 3: shape[3]}
    total = 0
    for axis, matrix in steps:
        total += math.prod(sizes.values()) * matrix.new
        sizes[axis] = matrix.new
    return total


def no_open_sizes(x: Array, axis: int, new: int) -> Array:
    """Raise TypeError: the argument of `along_axes` for resizing whose sizes cannot be open."""
    raise TypeError("this resizing needs sizes that are numbers")


# -- bilinear resizing -----------------------------------------------------------------------------------------------


def _interpolation(new: int, size: int, *, align_corners: bool) -> Matrix:
    """Weights of the old elements in each new one: two neighbours at most are not 0."""
    place = np.arange(new, dtype=np.float64)
    if align_corners:
        place *= (size - 1) / (new - 1) if new > 1 else 0.0
    else:
        place = np.maximum((place + 0.5) * (size / new) - 0.5, 0.0)
    low = np.minimum(place.astype(np.int64), size - 1)
    columns = np.stack([low, np.minimum(low + 1, size - 1)], 1)
    weights = np.stack([1 - (place - low), place - low], 1)
    rows = np.broadcast_to(np.arange(new)[:, None], (new, 2))
    used = weights != 0
    return Matrix(new, size, rows[used], columns[used], weights[used])


def _interpolated(x: Array, axis: int, new: int, *, align_corners: bool) -> Array:
    """Return the product of `_interpolation` and x along an axis of open size. Places are exact: fractions of whole
    numbers."""
    size = jnp.asarray(x.shape[axis], np.int32)
    number, count = lax.iota(np.int32, new), jnp.asarray(new, np.int32)
    if align_corners:
        place, whole = number * (size - 1), jnp.maximum(count - 1, 1)
    else:
        place, whole = jnp.maximum((2 * number + 1) * size - count, 0), 2 * count
    low = jnp.minimum(place // whole, size - 1)
    part = (place - low * whole).astype(x.dtype) / whole.astype(x.dtype)
    part = part.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    first, second = (jnp.take(x, at, axis, mode="clip") for at in (low, jnp.minimum(low + 1, size - 1)))
    return first * (1 - part) + second * part


@lowers("_contrib_BilinearResize2D")
def _bilinear_resize(p: ops.BilinearResizeParams, data: Array, like: Array | None = None) -> Array:
    sizes = ops.bilinear_sizes(p, data.shape, None if like is None else like.shape)
    known_sizes = [size for size in sizes if size is not None]  # of known sizes come known ones
    return along_axes(
        *(data, known_sizes, lambda new, old: _interpolation(new, old, align_corners=p.align_corners)),
        partial(_interpolated, align_corners=p.align_corners),
    )


@lowers("_backward_contrib_BilinearResize2D")
def _bilinear_resize_gradient(p: ops.BilinearResizeParams, ograd: Array, data: Array) -> Array:
    sizes = data.shape[2:]
    return along_axes(
        *(ograd, sizes, lambda new, old: _interpolation(old, new, align_corners=p.align_corners).T), no_open_sizes
    )


# -- adaptive average pooling ----------------------------------------------------------------------------------------


def _means(new: int, size: int) -> Matrix:
    """Each new element is the mean of a window of old ones."""
    number = np.arange(new)
    begin, end = number * size // new, -(-(number + 1) * size // new)
    lengths = end - begin
    rows = np.repeat(number, lengths)
    columns = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths - begin, lengths)
    return Matrix(new, size, rows, columns, 1 / lengths[rows])


def _averaged(x: Array, axis: int, new: int) -> Array:
    """Return the product of `_means` and x along an axis of open size."""
    size, number = jnp.asarray(x.shape[axis], np.int32), lax.iota(np.int32, new)
    begin, end = number * size // new, -(-(number + 1) * size // new)
    place = lax.iota(np.int32, x.shape[axis])
    inside = (place >= begin[:, None]) & (place < end[:, None])
    matrix = inside.astype(x.dtype) / (end - begin).astype(x.dtype)[:, None]
    subscripts = "nchw,gh->ncgw" if axis == 2 else "nchw,vw->nchv"
    return jnp.einsum(subscripts, x, matrix, precision=lax.Precision.HIGHEST)


@lowers("_contrib_AdaptiveAvgPooling2D")
def _adaptive_avg_pooling(p: ops.AdaptiveAvgPoolingParams, data: Array) -> Array:
    if p.sizes == (1, 1):
        return jnp.mean(data, (2, 3), keepdims=True)
    return along_axes(data, p.sizes, _means, _averaged)


@lowers("_backward_contrib_AdaptiveAvgPooling2D")
def _adaptive_avg_pooling_gradient(p: ops.AdaptiveAvgPoolingParams, ograd: Array, data: Array) -> Array:
    if p.sizes == (1, 1):
        return jnp.broadcast_to(ograd / math.prod(data.shape[2:]), data.shape)
    return along_axes(ograd, data.shape[2:], lambda new, old: _means(old, new).T, no_open_sizes)


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
