"""JAX rules of correlation and of its gradients.

A loop over the rows of displacements, whose body treats all displacements of a row: they are slices of one strip of the
second map. So neither the program nor the memory grows with the square of the neighbourhood. More than `_SLICED`
of them are gathered at once: the program does not grow with a row either (XLA takes 0.1 s to compile each slice).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.wide import wide
from symjax_nnvm.ops.vision import correlation as ops

_SLICED = 32


def _padded(p: ops.CorrelationParams, x: Array) -> Array:
    pad = (p.pad_size, p.pad_size, 0)
    return lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0)] * 2 + [pad, pad])


def _extent(p: ops.CorrelationParams, size: int) -> int:
    """Return how much of an axis the patches cover when the displacement is 0."""
    count = -(-(size + 2 * p.pad_size - 2 * p.border) // p.stride1)
    return (count - 1) * p.stride1 + p.kernel_size


def _unmoved(p: ops.CorrelationParams, x: Array, extents: list[int]) -> Array:
    """Return the part of a padded map that patches cover."""
    low = (0, 0, p.max_displacement, p.max_displacement)
    high = [*x.shape[:2], *(p.max_displacement + extent for extent in extents)]
    return lax.slice(x, low, high)


def _first_row(p: ops.CorrelationParams, row: Array) -> Array:
    """Return the first rows of the patches for a row of displacements."""
    return p.max_displacement + (row - p.radius) * p.stride2


def _moved(p: ops.CorrelationParams, x: Array, row: Array, extents: list[int]) -> Iterator[Array]:
    """Yield the part of a padded map that patches cover, for each displacement of a row."""
    strip = lax.dynamic_slice_in_dim(x, _first_row(p, row), extents[0], 2)
    for column in _first_columns(p):
        yield lax.slice_in_dim(strip, column, column + extents[1], axis=3)


def _columns(p: ops.CorrelationParams, extent: int) -> np.ndarray:
    """Return the columns that patches cover, for each displacement: (displacements of a row, extent)."""
    return np.add.outer(_first_columns(p), np.arange(extent)).astype(np.int32)


def _all_moved(p: ops.CorrelationParams, x: Array, row: Array, extents: list[int]) -> Array:
    """Return `_moved` as one array, displacements first."""
    strip = lax.dynamic_slice_in_dim(x, _first_row(p, row), extents[0], 2)
    return jnp.moveaxis(jnp.take(strip, _columns(p, extents[1]), 3), 3, 0)


def _first_columns(p: ops.CorrelationParams) -> list[int]:
    """Return the first columns of the patches for each displacement of a row."""
    return [p.max_displacement + (i - p.radius) * p.stride2 for i in range(p.width)]


def _rows(p: ops.CorrelationParams) -> Array:
    return lax.iota(np.int32, p.width)


def _compare(p: ops.CorrelationParams, fixed: list[Array], moving: list[Array], term: Callable[..., Array]) -> Array:
    """Return the mean over patches and channels of term(*fixed, *moving), for each displacement of the moving maps."""
    dtype = fixed[0].dtype
    extents = [_extent(p, size) for size in fixed[0].shape[2:]]
    unmoved = [_unmoved(p, _padded(p, wide(x)), extents) for x in fixed]
    padded = [_padded(p, wide(x)) for x in moving]

    def one_row(row: Array) -> Array:
        if p.width > _SLICED:
            moved = (_all_moved(p, x, row, extents) for x in padded)
            sums = jnp.moveaxis(jnp.sum(term(*unmoved, *moved), 2), 0, 1)
        else:
            places = zip(*(_moved(p, x, row, extents) for x in padded), strict=True)
            sums = jnp.stack([jnp.sum(term(*unmoved, *moved), 1) for moved in places], 1)
        return _patch_sums(p, sums, p.stride1)

    correlations = lax.map(one_row, _rows(p))  # (rows of displacements, n, columns of displacements, h', w')
    _, n, _, *counts = correlations.shape
    whole = jnp.moveaxis(correlations, 0, 1).reshape(n, p.width**2, *counts)
    return (whole / (p.kernel_size**2 * fixed[0].shape[1])).astype(dtype)


def _spread_patches(p: ops.CorrelationParams, ograd: Array, channels: int) -> Array:
    """Return the gradient that each element of a patch receives: (rows of displacements, columns of displacements, n,
    1, h'', w'')."""
    n = ograd.shape[0]
    margin = p.kernel_size - 1
    apart = (margin, margin, p.stride1 - 1)
    scaled = wide(ograd) / (p.kernel_size**2 * channels)
    spread = lax.pad(scaled, np.zeros((), scaled.dtype), [(0, 0, 0)] * 2 + [apart] * 2)
    whole = _patch_sums(p, spread, 1)
    whole = whole.reshape(n, p.width, p.width, 1, *whole.shape[2:])
    return whole.transpose(1, 2, 0, 3, 4, 5)


def _patch_sums(p: ops.CorrelationParams, x: Array, stride: int) -> Array:
    """Return sums over patches (…, h, w); over large ones along one axis after the other."""
    k, zero = p.kernel_size, np.zeros((), x.dtype)
    for kernel in [(k, k)] if k <= _SLICED else [(1, k), (k, 1)]:
        strides = [stride if size == k else 1 for size in kernel]
        x = lax.reduce_window(x, zero, lax.add, (1, 1, *kernel), (1, 1, *strides), "VALID")
    return x


def _sign(a: Array, b: Array) -> Array:
    """The slope of |a - b| by a; MXNet takes 1 where they are equal."""
    return jnp.where(a >= b, jnp.ones((), a.dtype), -jnp.ones((), a.dtype))


@lowers("Correlation")
def _correlation(p: ops.CorrelationParams, data1: Array, data2: Array) -> tuple[Array, Array, Array]:
    out = _compare(p, [data1], [data2], (lambda a, b: a * b) if p.is_multiply else (lambda a, b: jnp.abs(a - b)))
    first, second = (_padded(p, x).transpose(0, 2, 3, 1) for x in (data1, data2))
    return out, first, second


@lowers("_backward_Correlation_along")
def _along(p: ops.CorrelationParams, tangent1: Array, tangent2: Array, data1: Array, data2: Array) -> Array:
    return _compare(p, [tangent1, data1], [tangent2, data2], lambda da, a, db, b: _sign(a, b) * (da - db))


@lowers("_backward_Correlation_data1")
def _data1(p: ops.CorrelationParams, ograd: Array, data1: Array, data2: Array) -> Array:
    extents = [_extent(p, size) for size in data1.shape[2:]]
    a = _unmoved(p, _padded(p, wide(data1)), extents)
    padded = _padded(p, wide(data2))

    def add_row(total: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
        number, received = row
        if p.width > _SLICED:
            b = _all_moved(p, padded, number, extents)
            return total + jnp.sum(received * (b if p.is_multiply else _sign(a, b)), 0), None
        for i, b in enumerate(_moved(p, padded, number, extents)):
            total = total + received[i] * (b if p.is_multiply else _sign(a, b))
        return total, None

    received = _spread_patches(p, ograd, data1.shape[1])
    total, _ = lax.scan(add_row, jnp.zeros_like(a), (_rows(p), received))
    low = p.max_displacement - p.pad_size
    margins = [(low, size - low - extent, 0) for size, extent in zip(data1.shape[2:], extents, strict=True)]
    return lax.pad(total, np.zeros((), total.dtype), [(0, 0, 0)] * 2 + margins).astype(data1.dtype)


@lowers("_backward_Correlation_data2")
def _data2(p: ops.CorrelationParams, ograd: Array, data1: Array, data2: Array) -> Array:
    extents = [_extent(p, size) for size in data1.shape[2:]]
    a = _unmoved(p, _padded(p, wide(data1)), extents)
    padded = _padded(p, wide(data2))
    width = padded.shape[3]

    def add_row(total: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
        number, received = row
        at = _first_row(p, number)
        strip = lax.dynamic_slice_in_dim(total, at, extents[0], 2)
        if p.width > _SLICED:
            parts = received * (a if p.is_multiply else -_sign(a, _all_moved(p, padded, number, extents)))
            strip = strip.at[:, :, :, _columns(p, extents[1])].add(jnp.moveaxis(parts, 0, 3))
            return lax.dynamic_update_slice_in_dim(total, strip, at, 2), None
        for i, (column, b) in enumerate(zip(_first_columns(p), _moved(p, padded, number, extents), strict=True)):
            part = received[i] * (a if p.is_multiply else -_sign(a, b))
            margin = (column, width - column - extents[1], 0)
            strip = strip + lax.pad(part, np.zeros((), part.dtype), [(0, 0, 0)] * 3 + [margin])
        return lax.dynamic_update_slice_in_dim(total, strip, at, 2), None

    received = _spread_patches(p, ograd, data1.shape[1])
    total, _ = lax.scan(add_row, jnp.zeros_like(padded), (_rows(p), received))
    crop = (-p.pad_size, -p.pad_size, 0)
    return lax.pad(total, np.zeros((), total.dtype), [(0, 0, 0)] * 2 + [crop] * 2).astype(data2.dtype)
