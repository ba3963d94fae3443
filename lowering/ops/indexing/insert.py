"""JAX rules of delete and insert: gathers along an axis."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from lowering.ops.indexing.boolean_mask import values_of
from symjax_nnvm.ir.casts import cast
from symjax_nnvm.ir.node import NodeAttrs
from symjax_nnvm.ops.indexing import insert as ops

_SAME_SHAPE = "Give the indices as a number or a slice, or take the slices that are to remain."


def _flat(p: ops.PlaceParams, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    flat, axis = ops.flat(p, shape)
    return flat, axis  # pyright: ignore[reportReturnType]  # every size is known


def _indices_left(p: ops.DeleteParams, arr: Array, obj: tuple[Array, ...], attrs: NodeAttrs) -> tuple[np.ndarray, int]:
    """Return the indices of the slices that are left, and the axis."""
    flat, axis = _flat(p, arr.shape)
    length = flat[axis]
    if obj:
        index = values_of(obj[0], attrs, "obj", _SAME_SHAPE)
        # MXNet leaves out what is outside, and what is negative.
        places: Any = index if index.dtype == bool else index[(index >= 0) & (index < length)].astype(np.int64)
    else:
        places = p.places(length, length - 1)
    return np.delete(np.arange(length), places), axis


@lowers("_npi_delete", needs=("attrs",), by_values=lambda p: p.has_input)
def _delete(p: ops.DeleteParams, arr: Array, *obj: Array, attrs: NodeAttrs) -> Array:
    places, axis = _indices_left(p, arr, obj, attrs)
    return jnp.take(arr.reshape(_flat(p, arr.shape)[0]), places, axis, mode="clip")


@lowers("_backward_npi_delete", needs=("attrs",), by_values=lambda p: p.has_input)
def _backward_delete(p: ops.DeleteParams, ograd: Array, arr: Array, *obj: Array, attrs: NodeAttrs) -> Array:
    places, axis = _indices_left(p, arr, obj, attrs)
    zeros = jnp.zeros(_flat(p, arr.shape)[0], ograd.dtype)
    placed = zeros.at[(slice(None),) * axis + (places,)].set(ograd, unique_indices=True, indices_are_sorted=True)
    return placed.reshape(arr.shape)


@lowers("_npi_insert_scalar", "_npi_insert_slice", "_npi_insert_tensor")
def _insert(p: ops.InsertParams, arr: Array, *others: Array) -> Array:
    values = others[0] if p.val is None else jnp.asarray(cast(np.asarray(p.val), arr.dtype))
    shape, axis = _flat(p, arr.shape)
    length = shape[axis]
    indices: Any = others[-1] if len(others) > (p.val is None) else p.places(length, length)
    count = indices.shape[0] if indices.ndim else None
    new = ops.inserted(p, arr.shape, values.shape, count)
    assert new is not None
    aligned = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
    if count is None:
        aligned = jnp.moveaxis(aligned, 0, axis)
    spread = jnp.broadcast_to(aligned, (*shape[:axis], new, *shape[axis + 1 :])).astype(arr.dtype)
    both = jnp.concatenate([arr.reshape(shape), spread], axis)
    return jnp.take(both, _sources(indices, length, new), axis, mode="clip")


def _sources(indices: Any, length: int, new: int) -> Any:
    """Return of each slice of the result which one it is, of the old ones and then the new ones."""
    xp = np if isinstance(indices, np.ndarray) else jnp
    first = xp.where(indices < 0, indices + length, indices).reshape(-1)
    if first.shape[0] == 1:
        places = first + np.arange(new)
    else:
        order = xp.argsort(first, stable=True)
        rank = xp.argsort(order, stable=True)
        places = first + rank
    numbers = np.arange(length + new)
    is_new = places[:, None] == numbers
    which = (is_new * np.arange(new)[:, None]).sum(0)
    return xp.where(is_new.any(0), length + which, xp.cumsum(~is_new.any(0)) - 1)
