"""JAX rules of the operators that put new values into a copy of an array."""

from __future__ import annotations

from functools import reduce
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import number_as
from lowering.ops.indexing.gather_nd import nd_places
from lowering.ops.indexing.take import CLIP, integers
from lowering.ops.shape.slice import cuts_open_axes, index_of
from symjax_nnvm.ops.indexing import slice_assign as ops
from symjax_nnvm.ops.indexing.gather_nd import ScatterNDParams
from symjax_nnvm.ops.shape.slice import SliceParams, kept_indices


@lowers("_contrib_index_copy")
def _index_copy(p: Any, old: Array, index: Array, new: Array) -> Array:
    return old.at[integers(index)].set(new, **CLIP)


@lowers("_scatter_set_nd")
def _scatter_set_nd(p: ScatterNDParams, lhs: Array, rhs: Array, indices: Array) -> Array:
    return lhs.at[nd_places(indices, lhs.shape)].set(rhs, **CLIP)


def _assigned(p: SliceParams, lhs: Array, rhs: Array) -> Array:
    """Return lhs with rhs in place of a slice: a static slice, where indexing would scatter."""
    if cuts_open_axes(p, lhs.shape):
        return lhs.at[index_of(p)].set(rhs)
    places = [kept_indices(p, axis, length) for axis, length in enumerate(lhs.shape)]
    if not all(places):  # nothing is assigned
        return lhs
    backwards = [axis for axis, r in enumerate(places) if r.step < 0]
    rhs = lax.rev(rhs, backwards) if backwards else rhs
    places = [r[::-1] if r.step < 0 else r for r in places]
    if all(r.step == 1 or len(r) == 1 for r in places):
        return lax.dynamic_update_slice(lhs, rhs, [r[0] for r in places])
    widths = [(r[0], length - 1 - r[-1], r.step - 1) for r, length in zip(places, lhs.shape, strict=True)]
    spread = lax.pad(rhs, jnp.zeros((), rhs.dtype), widths)
    return jnp.where(_is_in(places, lhs.shape), spread, lhs)


def _is_in(places: list[range], shape: tuple[int, ...]) -> Array:
    """A mask of the elements of a slice, one row for each axis: no constant is as large as the array."""
    masks = []
    for axis, (r, length) in enumerate(zip(places, shape, strict=True)):
        row = lax.iota(np.uint32 if length <= 1 << 32 else np.int64, length)
        row = (row >= r.start) & (row < r.stop) & ((row - r.start) % r.step == 0)
        masks.append(row.reshape([length if i == axis else 1 for i in range(len(shape))]))
    return reduce(jnp.logical_and, masks)


@lowers("_slice_assign")
def _slice_assign(p: SliceParams, lhs: Array, rhs: Array) -> Array:
    return _assigned(p, lhs, rhs)


@lowers("_slice_assign_scalar")
def _slice_assign_scalar(p: ops.SliceAssignScalarParams, data: Array) -> Array:
    value = jnp.asarray(number_as(p.scalar, data.dtype))
    if cuts_open_axes(p, data.shape):
        return _assigned(p, data, value)
    shape = [len(kept_indices(p, axis, length)) for axis, length in enumerate(data.shape)]
    return _assigned(p, data, jnp.full(shape, value))


@lowers("fill_element_0index")
def _fill_element(p: Any, lhs: Array, mhs: Array, rhs: Array) -> Array:
    rhs = integers(rhs)
    return jnp.where(lax.broadcasted_iota(rhs.dtype, lhs.shape, 1) == rhs[:, None], mhs[:, None], lhs)
