"""Bilinear sampling of maps at real coordinates: gathers and weights, the transpose, and the slopes.

A bilinear sample is a sum over two taps in each axis. Taps include the map's border (`Border`) and may hold the
derivative of their weights by the coordinate instead of the weights, so that one routine serves the operators that
sample, their gradients by the map (`spread`, a scatter-add), and those by the coordinates. Maps have channels last: a
tap then reads one contiguous row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax


@dataclass(frozen=True)
class Border:
    """How an axis ends.

    Coordinates from `low` to size + `high` are sampled, others give 0; `closed`: whether the upper end belongs to them.
    zeros: the map goes on with zeros; else with its first and last elements. right_slope: at an element the slope is
    that towards the next one; else it is 0.
    """

    low: float
    high: float
    closed: bool = True
    zeros: bool = False
    right_slope: bool = True


class Taps(NamedTuple):
    """Two places of an axis and their weights, for every sample."""

    places: tuple[Array, Array]
    weights: tuple[Array, Array]


def taps(coordinate: Array, size: int, border: Border, order: int = 0) -> Taps:
    """The taps of coordinates in an axis of a size; order 1: with the weights' derivatives by the coordinate."""
    end = size + border.high
    sampled = (coordinate >= border.low) & ((coordinate <= end) if border.closed else (coordinate < end))
    if border.zeros:
        # Coordinates far outside would overflow as integers; none is sampled.
        position = jnp.clip(coordinate, -1, size)
        low = jnp.floor(position).astype(jnp.int32)
        ends = (low, low + 1)
        inside = [sampled & (place >= 0) & (place < size) for place in ends]
    else:
        position = jnp.clip(coordinate, 0, size - 1)
        low = jnp.floor(position).astype(jnp.int32)
        ends = (low, low + 1 if border.right_slope else jnp.ceil(position).astype(jnp.int32))
        inside = [sampled, sampled]
    if order == 0:
        part = position - low.astype(position.dtype)
        weights = (1 - part, part)
    else:
        moving = (position == coordinate).astype(position.dtype)
        weights = (-moving, moving)
    zero = jnp.zeros((), position.dtype)
    first, second = (jnp.where(keep, weight, zero) for keep, weight in zip(inside, weights, strict=True))
    return Taps((jnp.clip(ends[0], 0, size - 1), jnp.clip(ends[1], 0, size - 1)), (first, second))


def _corners(shape: tuple[int, ...], batch: Array, y: Taps, x: Taps) -> Iterator[tuple[Array, Array]]:
    """Yield (row, weight) of each of the four elements around the samples, rows counted over (batch, height, width)."""
    _, height, width, _ = shape
    for i, j in itertools.product(range(2), repeat=2):
        row = (batch * height + y.places[i]) * width + x.places[j]
        yield row, y.weights[i] * x.weights[j]


def sample(maps: Array, batch: Array, y: Taps, x: Taps) -> Array:
    """Samples (…, c) of maps (b, h, w, c): of the map numbered `batch` at taps in y and in x, broadcast together.

    The result has the dtype of the weights; in it the four products are added.
    """
    rows = maps.reshape(-1, maps.shape[-1])
    total: Array | None = None
    for row, weight in _corners(maps.shape, batch, y, x):
        value = rows.at[row].get(mode="promise_in_bounds", wrap_negative_indices=False)
        part = value.astype(weight.dtype) * lax.expand_dims(weight, (weight.ndim,))
        total = part if total is None else total + part
    assert total is not None  # there are four corners
    return total


def spread(values: Array, into: Array, batch: Array, y: Taps, x: Taps) -> Array:
    """The transpose of `sample` by the maps: maps (b, h, w, c) with values (…, c) added at their taps."""
    rows = into.reshape(-1, into.shape[-1])
    for row, weight in _corners(into.shape, batch, y, x):
        part = values.astype(rows.dtype) * lax.expand_dims(weight, (weight.ndim,))
        rows = rows.at[row].add(part, mode="promise_in_bounds", wrap_negative_indices=False)
    return rows.reshape(into.shape)
