"""JAX rules of spatial transformers: sampling grids, bilinear sampling, its transpose and its slopes."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.ops.wide import wide
from symjax_nnvm.ops.vision import spatial_transformer as ops

# -- grids -----------------------------------------------------------------------------------------------------------


def _affine(matrices: Array, shape: tuple[int, ...]) -> Array:
    """Return matrices (n, 6) times the target's positions: (n, 2, h, w)."""
    h, w = shape
    points = ops.target_points(shape).astype(matrices.dtype).reshape(3, h, w)
    m = matrices.reshape(-1, 2, 3, 1, 1)
    # Three terms are no work for a matrix unit, and its reduced precision would move the samples.
    return m[:, :, 0] * points[0, :1] + m[:, :, 1] * points[1, :, :1] + m[:, :, 2]


def _half_sizes(h: int, w: int, dtype: np.dtype) -> Array:
    """Return half the distance from the first to the last column and row, in pixels: (2, 1, 1). Sizes may be open."""
    distances = jnp.stack([jnp.asarray(size - 1, jnp.promote_types(dtype, jnp.float32)) for size in (w, h)])
    return (distances / 2).astype(dtype).reshape(2, 1, 1)


@lowers("GridGenerator")
def _grid_generator(p: ops.GridGeneratorParams, data: Array) -> tuple[Array, Array]:
    if p.transform_type == "affine":
        points = jnp.asarray(ops.target_points(p.target_shape), data.dtype)
        return _affine(wide(data), p.target_shape).astype(data.dtype), points
    _, _, h, w = data.shape
    pixels = jnp.stack([lax.broadcasted_iota(jnp.int32, (h, w), axis) for axis in (1, 0)]).astype(data.dtype)
    moved = (wide(data) + pixels) / _half_sizes(h, w, data.dtype) - 1
    return moved.astype(data.dtype), pixels


@lowers("_backward_GridGenerator")
def _backward_grid_generator(p: ops.GridGeneratorParams, ograd: Array) -> Array:
    if p.transform_type == "warp":
        return ograd / _half_sizes(ograd.shape[2], ograd.shape[3], ograd.dtype)
    dy = wide(ograd)
    points = ops.target_points(p.target_shape).astype(dy.dtype)
    sums = jnp.einsum("ndp,kp->ndk", dy.reshape(*dy.shape[:2], -1), points, precision=lax.Precision.HIGHEST)
    return sums.reshape(-1, 6).astype(ograd.dtype)


# -- sampling --------------------------------------------------------------------------------------------------------


def _neighbours(position: Array, size: int, slope: bool) -> Iterator[tuple[Array, Array, Array]]:
    """Yield along one axis: (index, whether it is inside, weight) of the elements before and after each position.

    slope: weights of the derivative with respect to the position.
    """
    half = (size - 1) / 2
    pixel = (position + 1) * half
    before = jnp.floor(pixel)
    part = pixel - before
    for index, weight in ((before, 1 - part), (before + 1, part)):
        inside = (index >= 0) & (index <= size - 1)
        if slope:
            weight = jnp.full_like(part, -half if index is before else half)
        yield jnp.clip(index, 0, size - 1).astype(jnp.int32), inside, weight


def _corners(grid: Array, shape: tuple[int, ...], p: ops.SlopeParams) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the four elements around each position: (number in the flattened h × w, whether it is inside, weight)."""
    _, _, h, w = shape
    positions = wide(grid).reshape(grid.shape[0], 2, -1)
    columns = list(_neighbours(positions[:, 0], w, p.dx))
    for row, row_inside, row_weight in _neighbours(positions[:, 1], h, p.dy):
        for column, inside, weight in columns:
            yield row * w + column, row_inside & inside, row_weight * weight


def _sample(data: Array, grid: Array, p: ops.SlopeParams) -> Array:
    """Map data (n, c, h, w), grid (n, 2, y, x) → (n, c, y, x)."""
    n, c, h, w = data.shape
    flat = data.reshape(n, c, h * w)
    total: Array | None = None
    for place, inside, weight in _corners(grid, data.shape, p):
        value = jnp.take_along_axis(flat, place[:, None], 2, mode="promise_in_bounds")
        part = jnp.where(inside[:, None], value, np.zeros((), data.dtype)) * weight[:, None]
        total = part if total is None else total + part
    assert total is not None
    return total.astype(data.dtype).reshape(n, c, *grid.shape[2:])


@lowers("BilinearSampler")
def _bilinear_sampler(p: ops.BilinearSamplerParams, data: Array, grid: Array) -> tuple[Array, Array]:
    n, _, y, x = grid.shape
    return _sample(data, grid, ops.SlopeParams()), jnp.zeros((n, y, x, 2), data.dtype)


@lowers("_backward_BilinearSampler_slope")
def _slope(p: ops.SlopeParams, data: Array, grid: Array) -> Array:
    return _sample(data, grid, p)


@lowers("_backward_BilinearSampler_data")
def _spread(p: ops.SlopeParams, ograd: Array, grid: Array, data: Array) -> Array:
    n, c, h, w = data.shape
    dy = wide(ograd).reshape(n, c, -1)
    corners = list(_corners(grid, data.shape, p))
    # What is outside goes to a place that does not exist, and is dropped.
    places = jnp.concatenate([jnp.where(inside, place, h * w) for place, inside, _ in corners], 1)
    parts = jnp.concatenate([dy * weight[:, None] for _, _, weight in corners], 2)

    def add(place: Array, part: Array) -> Array:
        return jnp.zeros((c, h * w), part.dtype).at[:, place].add(part, mode="drop")

    return jax.vmap(add)(places, parts).reshape(data.shape).astype(data.dtype)


@lowers("SpatialTransformer")
def _spatial_transformer(p: ops.SpatialTransformerParams, data: Array, loc: Array) -> tuple[Array, Array, Array]:
    grid = _affine(wide(loc), p.target_shape)
    points = jnp.asarray(ops.target_points(p.target_shape), data.dtype)
    flat = grid.reshape(grid.shape[0], 2, -1).astype(data.dtype)
    return _sample(data, grid, ops.SlopeParams()), points, flat
