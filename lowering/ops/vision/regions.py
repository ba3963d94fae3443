"""Regions of interest: reading them, and pooling maps over regions with separable weights, with its transpose."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.jax_casts import cast
from symjax_nnvm.ir.rules.size_symbols import is_open

_CHUNK = 1 << 25
"""The most elements of an intermediate array when regions are pooled: more regions are treated in turn."""


def stored(x: Array) -> Array:
    """The value as if it had been written to memory, not contracted with what uses it; 0 for NaN.

    Regions are cut where a rounded value is an integer. A product contracted with a sum, or a division turned into a
    product with the reciprocal (3 · (1 / 7) · 7 is more than 3), would move the cut by a whole element. XLA does both;
    a CPU has no optimisation barrier left by then, but no compiler may look through a choice that depends on data.
    """
    return jnp.where(jnp.isnan(x), jnp.zeros((), x.dtype), x)


def divided(x: Array, divisor: int) -> Array:
    """x / divisor, correctly rounded; 0 for NaN."""
    return stored(x / jnp.where(jnp.isnan(x), jnp.ones((), x.dtype), jnp.full((), divisor, x.dtype)))


def rounded(x: Array) -> Array:
    """The nearest integer, halves away from zero."""
    whole = jnp.trunc(x)
    return whole + jnp.where(jnp.abs(x - whole) >= 0.5, jnp.sign(x), jnp.zeros((), x.dtype))


def images(rois: Array, count: int) -> tuple[Array, Array]:
    """(number of each region's image, clipped to those there are; whether there is such an image)."""
    number = cast(rois[:, 0], jnp.int32)
    return jnp.clip(number, 0, count - 1), (number >= 0) & (number < count)


def _of_images(rows: Array, rois: Array, count: int) -> Array:
    """Return weights of rows (r, p, h) as weights of the rows of all images (r, p, n, h): 0 but for the region's
    own."""
    number = cast(rois[:, 0], jnp.int32)
    of_image = (number[:, None] == lax.iota(jnp.int32, count)).astype(rows.dtype)
    return rows[:, :, None, :] * of_image[:, None, :, None]


def _product(equation: str, a: Array, b: Array) -> Array:
    # Weights of positions need every bit: a GPU's or TPU's default would round them to 10 or 8 bits.
    return jnp.einsum(equation, a, b, precision=lax.Precision.HIGHEST)


def _in_turn(regions: tuple[Array, ...], size: int) -> tuple[tuple[Array, ...], int]:
    """Return the arrays' regions in chunks (turns, regions, …), filled up with zeros; and the number of regions in one.

    size: elements of the intermediate array for one region. Where one of these is open all regions are one chunk.
    """
    count = regions[0].shape[0]
    if is_open(count) or is_open(size):
        return tuple(x[None] for x in regions), count
    chunk = max(1, min(count, _CHUNK // max(size, 1)))
    turns = -(-count // chunk)
    filler = turns * chunk - count
    padded = (jnp.pad(x, [(0, filler)] + [(0, 0)] * (x.ndim - 1)) if filler else x for x in regions)
    return tuple(x.reshape(turns, chunk, *x.shape[1:]) for x in padded), chunk


def pool(maps: Array, rois: Array, rows: Array, columns: Array) -> Array:
    """Maps (n, c, h, w), weights of rows (r, p, h) and of columns (r, q, w) → sums (r, c, p, q).

    Maps (n, c, p, q, h, w) are position-sensitive: every bin has its own.
    """
    n, *_, _, width = maps.shape
    sensitive = maps.ndim == 6
    first = "rpnh,ncpqhw->rpqcw" if sensitive else "rpnh,nchw->rpcw"
    second = "rpqcw,rqw->rcpq" if sensitive else "rpcw,rqw->rcpq"

    def some(weights: tuple[Array, ...]) -> Array:
        rois, rows, columns = weights
        return _product(second, _product(first, _of_images(rows, rois, n), maps), columns)

    bins = rows.shape[1] * (columns.shape[1] if sensitive else 1)
    turns, _ = _in_turn((rois, rows, columns), bins * maps.shape[1] * width)
    if turns[0].shape[0] == 1:
        return some((rois, rows, columns))
    pooled = lax.map(some, turns)
    return pooled.reshape(-1, *pooled.shape[2:])[: rois.shape[0]]


def unpool(values: Array, maps: tuple[int, ...], rois: Array, rows: Array, columns: Array) -> Array:
    """The transpose of `pool` by the maps: sums (r, c, p, q) spread over maps of a shape."""
    n, *_, _, width = maps
    sensitive = len(maps) == 6
    second = "rcpq,rqw->rpqcw" if sensitive else "rcpq,rqw->rpcw"
    first = "rpnh,rpqcw->ncpqhw" if sensitive else "rpnh,rpcw->nchw"

    def some(weights: tuple[Array, ...]) -> Array:
        values, rois, rows, columns = weights
        return _product(first, _of_images(rows, rois, n), _product(second, values, columns))

    bins = rows.shape[1] * (columns.shape[1] if sensitive else 1)
    turns, _ = _in_turn((values, rois, rows, columns), bins * maps[1] * width)
    if turns[0].shape[0] == 1:
        return some((values, rois, rows, columns))

    def add(total: Array, turn: tuple[Array, ...]) -> tuple[Array, None]:
        return total + some(turn), None

    total, _ = lax.scan(add, jnp.zeros(maps, values.dtype), turns)
    return total


def group_of_bin(bins: int, groups: int) -> np.ndarray:
    """The group of maps that each of `bins` belongs to."""
    return np.clip(np.arange(bins) * groups // bins, 0, groups - 1)
