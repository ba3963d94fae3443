"""Primitives that move numbers and compute none: broadcasts, slices, pads, transpositions, sorts."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from lowering.host.primitives import Arrays, JaxEquation, dtype_of, evaluates, require, shape_of
from lowering.host.short_axes import copied_along_longer_axes


@evaluates("broadcast_in_dim")
def _broadcast_in_dim(equation: JaxEquation) -> Arrays:
    shape, dims = tuple(equation.params["shape"]), equation.params["broadcast_dimensions"]
    require(len(equation.invars) == 1)
    (operand,) = equation.invars
    sizes = [1] * len(shape)
    for axis, size in zip(dims, operand.aval.shape, strict=True):
        sizes[axis] = size
    return lambda x: np.broadcast_to(np.reshape(x, sizes), shape)


@evaluates("reshape")
def _reshape(equation: JaxEquation) -> Arrays:
    require(equation.params.get("dimensions") is None)
    shape = shape_of(equation.outvars[0])
    return lambda x: np.reshape(copied_along_longer_axes(x), shape)


@evaluates("squeeze")
def _squeeze(equation: JaxEquation) -> Arrays:
    shape = shape_of(equation.outvars[0])
    return lambda x: np.reshape(x, shape)


@evaluates("transpose")
def _transpose(equation: JaxEquation) -> Arrays:
    permutation = tuple(equation.params["permutation"])
    return lambda x: np.transpose(x, permutation)


@evaluates("rev")
def _rev(equation: JaxEquation) -> Arrays:
    axes = tuple(equation.params["dimensions"])
    return lambda x: np.flip(x, axes)


@evaluates("iota")
def _iota(equation: JaxEquation) -> Arrays:
    shape, axis = tuple(equation.params["shape"]), equation.params["dimension"]
    sizes = [1] * len(shape)
    sizes[axis] = shape[axis]
    numbers = np.broadcast_to(np.arange(shape[axis]).astype(equation.params["dtype"]).reshape(sizes), shape)
    return lambda: numbers


@evaluates("empty", "empty2")
def _empty(equation: JaxEquation) -> Arrays:
    """What no equation reads before it is written; XLA has zeros there."""
    zeros = np.zeros(shape_of(equation.outvars[0]), dtype_of(equation.outvars[0]))
    return lambda: zeros


@evaluates("dim_as_value")
def _dim_as_value(equation: JaxEquation) -> Arrays:
    """The number of a size that was open."""
    number = np.asarray(equation.params["dim"], dtype_of(equation.outvars[0]))
    return lambda: number


@evaluates("concatenate")
def _concatenate(equation: JaxEquation) -> Arrays:
    axis = equation.params["dimension"]
    return lambda *arrays: np.concatenate(arrays, axis)


@evaluates("stack")
def _stack(equation: JaxEquation) -> Arrays:
    axis = equation.params["axis"]
    return lambda *arrays: np.stack(arrays, axis)


@evaluates("tile")
def _tile(equation: JaxEquation) -> Arrays:
    times = tuple(equation.params["reps"])
    return lambda x: np.tile(x, times)


@evaluates("split")
def _split(equation: JaxEquation) -> Arrays:
    ends, axis = np.cumsum(equation.params["sizes"])[:-1].tolist(), equation.params["axis"]
    return lambda x: np.split(x, ends, axis)


@evaluates("unstack")
def _unstack(equation: JaxEquation) -> Arrays:
    axis = equation.params["axis"]
    return lambda x: list(np.moveaxis(x, axis, 0))


@evaluates("slice")
def _slice(equation: JaxEquation) -> Arrays:
    starts, ends = equation.params["start_indices"], equation.params["limit_indices"]
    steps = equation.params["strides"] or (1,) * len(starts)
    places = tuple(map(slice, starts, ends, steps))
    return lambda x: x[places]


@evaluates("pad")
def _pad(equation: JaxEquation) -> Arrays:
    """Padding may be negative, which cuts, and between elements."""
    shape, dtype = equation.outvars[0].aval.shape, dtype_of(equation.outvars[0])
    targets, sources = [], []
    for (low, _, between), old, new in zip(
        equation.params["padding_config"], equation.invars[0].aval.shape, shape, strict=True
    ):
        step = between + 1
        first = max(0, -(low // step))  # the first element that is not cut away
        count = max(0, min(old, -((low - new) // step)) - first)
        begin = low + first * step
        targets.append(slice(begin, begin + count * step, step) if count else slice(0, 0))
        sources.append(slice(first, first + count))
    places, taken = tuple(targets), tuple(sources)

    def pad(x: Any, value: Any) -> Any:
        padded = np.full(shape, value, dtype)
        padded[places] = x[taken]
        return padded

    return pad


def _clipped(starts: Any, sizes: Any, shape: Any) -> tuple[slice, ...]:
    """Return the place of a slice, moved inside the array where it would leave it."""
    begins = [min(max(int(start), 0), whole - size) for start, size, whole in zip(starts, sizes, shape, strict=True)]
    return tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))


@evaluates("dynamic_slice")
def _dynamic_slice(equation: JaxEquation) -> Arrays:
    sizes = equation.params["slice_sizes"]
    require(len(equation.invars) == 1 + len(sizes))
    return lambda x, *starts: x[_clipped(starts, sizes, x.shape)]


@evaluates("dynamic_update_slice")
def _dynamic_update_slice(equation: JaxEquation) -> Arrays:
    def update(x: Any, value: Any, *starts: Any) -> Any:
        written = np.array(x)
        written[_clipped(starts, value.shape, x.shape)] = value
        return written

    return update


def _sortable(x: Any) -> Any:
    """Return numbers as NumPy sorts them, NaN last: it cannot sort bfloat16 with NaN."""
    return x.astype(np.float32) if x.dtype == jnp.bfloat16 else x


@evaluates("sort")
def _sort(equation: JaxEquation) -> Arrays:
    axis, keys = equation.params["dimension"], equation.params["num_keys"]

    def sort(*arrays: Any) -> Any:
        sorted_by = [*map(_sortable, map(np.asarray, arrays[:keys]))]
        if len(arrays) == 1:
            return [np.sort(sorted_by[0], axis, kind="stable").astype(arrays[0].dtype, copy=False)]
        order = np.argsort(sorted_by[0], axis, kind="stable") if keys == 1 else np.lexsort(sorted_by[::-1], axis)
        return [np.take_along_axis(array, order, axis) for array in arrays]

    return sort


@evaluates("top_k")
def _top_k(equation: JaxEquation) -> Arrays:
    count, axis = equation.params["k"], equation.params.get("axis", -1)

    def top(x: Any) -> Any:
        backwards = np.flip(_sortable(x), axis)  # of equal numbers the first comes first
        last = np.flip(np.argsort(backwards, axis, kind="stable"), axis)
        order = np.take(x.shape[axis] - 1 - last, range(count), axis)
        return np.take_along_axis(x, order, axis), order.astype(np.int32)

    return top
