"""NumPy's arrays as JAX's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.sharding import Sharding, SingleDeviceSharding

from lowering.native.unpromised import put

_ALIGNED, _LARGE = 64, 1 << 17
"""JAX takes over memory that begins at a multiple of so many bytes, and copies other. Large memory of
NumPy's, of so many bytes, seldom begins there. A copy of 9 MB takes 2.5 ms, taking it over 0.02."""


class _Memory(np.ndarray):
    """Bytes that one array fills, but for those before its first."""


def empty(shape: Sequence[int], dtype: Any) -> Any:
    """An array without values that JAX takes over without a copy."""
    dtype = np.dtype(dtype)
    size = prod(shape) * dtype.itemsize
    if size < _LARGE:
        return np.empty(shape, dtype)
    memory = _Memory(size + _ALIGNED, np.uint8)
    return np.ndarray(shape, dtype, memory, -memory.__array_interface__["data"][0] % _ALIGNED)  # pyright: ignore


def owned(results: Sequence[Any]) -> list[Any]:
    """Results as arrays whose memory nothing else has: JAX writes arrays that are given away. Parts of inputs, of
    constants and of other results are copied."""
    taken: set[int] = set()
    arrays = []
    for value in results:
        memory = _filled_by(value)
        if memory is None or memory in taken:
            arrays.append(_copied(value))
        else:
            taken.add(memory)
            arrays.append(np.asarray(value))
    return arrays


def _copied(array: Any) -> Any:
    """Return a copy; of an array whose rows are turned one in its own order, which JAX puts in order faster."""
    return copied_in_order(array) if array.ndim and array.strides[-1] in (0, array.itemsize) else np.array(array)


def copied_in_order(array: Any) -> Any:
    """A copy whose elements lie one after the other, which JAX takes over."""
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _filled_by(array: Any) -> int | None:
    """Return what distinguishes the memory that an array fills; None where it may be a part of another's."""
    memory = base = getattr(array, "base", None)
    if base is None:
        return id(array)
    while type(memory) is np.ndarray and memory.base is not None:
        memory = memory.base
    is_filled = type(memory) is _Memory and memory.nbytes == array.nbytes + _ALIGNED and array.flags.c_contiguous
    return id(memory) if is_filled else None


def placed(arrays: Sequence[np.ndarray], place: Any) -> Sequence[jax.Array]:
    """NumPy's arrays as JAX's. `jax.device_put` takes five times as long.

    place: a device or a sharding that they are bound to; None: to none.
    """
    config: Any = jax.config
    kinds = [_kind(array.shape, array.dtype, config.jax_enable_x64) for array in arrays]
    by_default = place is None and config.jax_default_device is not None
    if None not in kinds and not by_default and not isinstance(place, Sharding):
        result = put(kinds, arrays, _on(place), place is not None)
        if result is not None:
            return result
    return jax.device_put(arrays, place)


def placed_one(array: Any, place: Any) -> jax.Array:
    """An array or a number of NumPy's as JAX's."""
    return placed([np.asarray(array)], place)[0]


@lru_cache(4096)
def _kind(shape: tuple[int, ...], dtype: np.dtype, wide: bool) -> Any:
    """Return the type of JAX's array; None where JAX has another dtype. wide: whether it has 64 bits."""
    return ShapedArray(shape, dtype) if jax.dtypes.canonicalize_dtype(dtype) == dtype else None


@cache
def _on(device: Any) -> SingleDeviceSharding:
    """Return where arrays are; those that may go to any device are on this process's first."""
    return SingleDeviceSharding(jax.local_devices()[0] if device is None else device)
