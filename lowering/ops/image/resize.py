"""JAX rules of images in other sizes, and of rectangles of them."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import Numbers, lowers
from lowering.ops.vision.resize import Matrix, along_axes, no_open_sizes
from symjax_nnvm.ops.image import resize as ops

_SIZES = Numbers("the source of each pixel is computed when the program is made", axes=(-3, -2))


def _matrix(new: int, old: int, *, interp: int, shrinks: bool) -> Matrix:
    """Return what each new pixel takes of each old one, along an axis."""
    columns, weights = ops.taps(new, old, interp, shrinks)
    rows = np.broadcast_to(np.arange(new)[:, None], columns.shape)
    used = weights != 0
    return Matrix(new, old, rows[used], columns[used], weights[used])


def _shrinks(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    return new[-3] <= old[-3] and new[-2] <= old[-2]


def _channels_first(x: Array) -> Array:
    """Map (h, w, c) or (n, h, w, c) → (n, c, h, w)."""
    return jnp.moveaxis(x if x.ndim == 4 else x[None], -1, 1)


def _channels_last(x: Array, ndim: int) -> Array:
    return jnp.moveaxis(x, 1, -1) if ndim == 4 else jnp.moveaxis(x[0], 0, -1)


@lowers("_image_resize", numbers=_SIZES)
def _resize(p: ops.ResizeParams, data: Array) -> Array:
    height, width = ops.resized_sizes(p, data.shape)
    assert height is not None
    assert width is not None
    whole = not jnp.issubdtype(data.dtype, jnp.floating)
    if whole and data.size and ops.by_whole_numbers(data.shape[-3:-1], (height, width), p.interp):
        return ops.resized_bytes(data.astype(np.int32), height, width, p.interp).astype(data.dtype)
    image = _channels_first(data.astype(np.float32) if whole else data)
    shrinks = _shrinks(data.shape, (height, width, 0))
    matrix = partial(_matrix, interp=p.interp, shrinks=shrinks)
    resized = along_axes(image, (height, width), matrix, no_open_sizes)
    resized = jnp.clip(jnp.round(resized), 0, 255) if whole else resized
    return _channels_last(resized, data.ndim).astype(data.dtype)


@lowers("_backward_image_resize", numbers=_SIZES)
def _resize_gradient(p: ops.ResizeParams, ograd: Array, data: Array) -> Array:
    shrinks = _shrinks(data.shape, ograd.shape)

    def matrix(new: int, old: int) -> Matrix:
        return _matrix(old, new, interp=p.interp, shrinks=shrinks).T

    gradient = along_axes(_channels_first(ograd), data.shape[-3:-1], matrix, no_open_sizes)
    return _channels_last(gradient, ograd.ndim)


@lowers("_image_crop")
def _crop(p: ops.ImageCropParams, data: Array) -> Array:
    rows = lax.slice_in_dim(data, p.y, p.y + p.height, axis=-3)
    return lax.slice_in_dim(rows, p.x, p.x + p.width, axis=-2)


@lowers("_backward_image_crop")
def _crop_gradient(p: ops.ImageCropParams, ograd: Array, data: Array) -> Array:
    height, width = data.shape[-3:-1]
    around = [(0, 0)] * (ograd.ndim - 3) + [(p.y, height - p.y - p.height), (p.x, width - p.x - p.width), (0, 0)]
    return jnp.pad(ograd, around)
