"""JAX rules of the operators that order elements."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.indexing import sort as ops


def _line(data: Array, axis: int | None) -> tuple[Array, int]:
    """Return (the array whose lines are ordered, its axis)."""
    return (data.reshape(-1), 0) if axis is None else (data, axis % data.ndim)


def _turned(keys: Array) -> Array:
    """Return keys in the opposite order; its own inverse. Integers have no negative of their smallest number."""
    return -keys if jnp.issubdtype(keys.dtype, jnp.floating) else ~keys


def _ordered(data: Array, axis: int, ascend: bool) -> tuple[Array, Array]:
    """Return (elements in order, where they were)."""
    places = lax.broadcasted_iota(np.int32, data.shape, axis)
    keys = data if ascend else _turned(data)
    keys, places = lax.sort((keys, places), dimension=axis, is_stable=True, num_keys=1)
    return keys if ascend else _turned(keys), places


def places_of_largest(keys: Array, number: int) -> Array:
    """The places of the `number` largest of the last axis, equal ones in their order: int32."""
    if jnp.issubdtype(keys.dtype, jnp.floating):
        # `lax.top_k` takes 0 for larger than -0. Its bits distinguish -0 from subnormal numbers.
        width = 8 * keys.dtype.itemsize
        bits = lax.bitcast_convert_type(keys, f"uint{width}")
        keys = jnp.where(bits == np.array(1 << (width - 1), bits.dtype), jnp.zeros((), keys.dtype), keys)
    return lax.top_k(keys, number)[1]


def _first(data: Array, axis: int, number: int, ascend: bool) -> tuple[Array, Array]:
    """Return (the first elements in order, where they were)."""
    if number == data.shape[axis]:
        return _ordered(data, axis, ascend)
    lines = jnp.moveaxis(data, axis, -1)
    places = places_of_largest(_turned(lines) if ascend else lines, number)
    values = jnp.take_along_axis(lines, places, -1, mode="promise_in_bounds")
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(places, -1, axis)


@lowers("sort")
def _sort(p: ops.SortParams, data: Array) -> tuple[Array, Array]:
    return _ordered(*_line(data, p.axis), p.is_ascend)


@lowers("argsort")
def _argsort(p: ops.ArgsortParams, data: Array) -> Array:
    _, places = _ordered(*_line(data, p.axis), p.is_ascend)
    return places.astype(jax.dtypes.canonicalize_dtype(p.dtype))


@lowers("topk")
def _topk(p: ops.TopKParams, data: Array) -> Array | tuple[Array, ...]:
    line, axis = _line(data, p.axis)
    values, places = _first(line, axis, ops.chosen(p, line.shape[axis]), p.is_ascend)
    if p.ret_typ == "mask":
        return _added(line.shape, jnp.ones(places.shape, data.dtype), places, axis, True).reshape(data.shape)
    indices = places.astype(jax.dtypes.canonicalize_dtype(p.dtype))
    return {"indices": (indices,), "value": (values, places), "both": (values, indices)}[p.ret_typ]


def _added(shape: tuple[int, ...], ograd: Array, places: Array, axis: int, distinct: bool) -> Array:
    """Return zeros with elements added along an axis."""
    grid = tuple(places if i == axis else lax.broadcasted_iota(np.int32, places.shape, i) for i in range(len(shape)))
    zeros = jnp.zeros(shape, ograd.dtype)
    return zeros.at[grid].add(ograd, mode="promise_in_bounds", unique_indices=distinct)


@lowers("_take_along_axis")
def _take_along_axis(p: ops.AlongAxisParams, data: Array, indices: Array) -> Array:
    return jnp.take_along_axis(data, indices.astype(np.int32), p.axis, mode="promise_in_bounds")


@lowers("_backward_take_along_axis")
def _backward_take_along_axis(p: ops.AlongAxisParams, ograd: Array, indices: Array, data: Array) -> Array:
    return _added(data.shape, ograd, indices.astype(np.int32), p.axis % data.ndim, p.distinct)
