"""JAX rules of take, batch_take, pick and one_hot."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast, number_as
from symjax_nnvm.ops.indexing import take as ops


def integers(indices: Array) -> Array:
    """Indices as integers wide enough for any axis: MXNet gives them in any dtype, and truncates fractions."""
    wide = jnp.issubdtype(indices.dtype, jnp.signedinteger) and indices.dtype.itemsize >= 4
    return indices if wide else indices.astype(jnp.int32)


def _classes(indices: Array) -> Array:
    """Return indices as integers where MXNet casts them to int32: what it does not hold, NaN too, is below all."""
    return cast(indices, jnp.int32) if jnp.issubdtype(indices.dtype, jnp.floating) else integers(indices)


def _places(indices: Array, length: int, mode: str) -> Array:
    """Return indices of an axis; what `wrap` brings back is inside, a gather or scatter clips the rest."""
    indices = integers(indices)
    return jnp.remainder(indices, length) if mode == "wrap" else indices


CLIP: dict[str, Any] = {"mode": "clip", "wrap_negative_indices": False}
"""XLA's own gather clips: out-of-range indices cost nothing."""


def take_along(data: Array, indices: Array, axis: int, mode: str) -> Array:
    return data.at[(slice(None),) * axis + (_places(indices, data.shape[axis], mode),)].get(**CLIP)


def add_along(shape: tuple[int, ...], ograd: Array, indices: Array, axis: int, mode: str) -> Array:
    """Zeros of a shape, with the slices of ograd added at the indices along an axis."""
    places = (slice(None),) * axis + (_places(indices, shape[axis], mode),)
    return jnp.zeros(shape, ograd.dtype).at[places].add(ograd, **CLIP)


@lowers("take")
def _take(p: ops.TakeParams, a: Array, indices: Array) -> Array:
    return take_along(a, indices, p.axis % a.ndim, p.mode)


@lowers("_backward_take")
def _backward_take(p: ops.TakeParams, ograd: Array, a: Array, indices: Array) -> Array:
    return add_along(a.shape, ograd, indices, p.axis % a.ndim, p.mode)


@lowers("one_hot")
def _one_hot(p: ops.OneHotParams, indices: Array) -> Array:
    dtype = jax.dtypes.canonicalize_dtype(p.dtype)
    indices = _classes(indices)
    hot = indices[..., None] == lax.iota(indices.dtype, p.depth)
    if (p.on_value, p.off_value) == (1, 0):
        return hot.astype(dtype)
    return jnp.where(hot, number_as(p.on_value, dtype), number_as(p.off_value, dtype))


def _with_axis(array: Array, shape: tuple[int, ...], axis: int) -> Array:
    """A pick's index or result, with the axis it was picked from."""
    return array.reshape((*shape[:axis], 1, *shape[axis + 1 :]))


@lowers("pick")
def _pick(p: ops.PickParams, data: Array, index: Array) -> Array:
    axis = (p.axis or 0) % data.ndim
    picked = _pick_along(data, _places(_classes(index), data.shape[axis], p.mode), axis)
    return picked if p.keepdims else picked.reshape(_without_axis(data.shape, axis))


def _pick_along(data: Array, places: Array, axis: int) -> Array:
    places = jnp.clip(_with_axis(places, data.shape, axis), 0, data.shape[axis] - 1)
    return jnp.take_along_axis(data, places, axis, mode="promise_in_bounds")


@lowers("_backward_pick")
def _backward_pick(p: ops.PickParams, ograd: Array, data: Array, index: Array) -> Array:
    # A comparison with the axis' numbers fuses with its users; a scatter would not.
    axis = (p.axis or 0) % data.ndim
    places = _with_axis(_places(_classes(index), data.shape[axis], p.mode), data.shape, axis)
    places = jnp.clip(places, 0, data.shape[axis] - 1)
    numbers = lax.broadcasted_iota(places.dtype, data.shape, axis)
    return jnp.where(numbers == places, _with_axis(ograd, data.shape, axis), jnp.zeros((), ograd.dtype))


def _without_axis(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :]) or (1,)


@lowers("batch_take")
def _batch_take(p: Any, a: Array, indices: Array) -> Array:
    return _pick_along(a, indices, 1)[:, 0]
