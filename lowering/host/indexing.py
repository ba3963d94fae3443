"""Primitives that read and write at places that are numbers themselves: gather and scatter."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from lowering.host.primitives import Arrays, JaxEquation, dtype_of, evaluates, is_floating, require


def _places(
    indices: Any, start_map: Any, batching: Any, of_indices: Any, sizes: Any, shape: Any, is_clipped: bool
) -> tuple[list[Any], Any]:
    """Return an index of each axis of an array for all elements of all slices, of shape (*batch, *sizes), and whether
    each slice is inside the array.

    indices: (*batch, axes of `start_map`). batching: axes of the array that go along with the axes `of_indices`.
    """
    batch, rank = indices.shape[:-1], len(shape)
    starts: list[Any] = [np.zeros((1,) * len(batch), np.int64)] * rank
    for i, axis in enumerate(start_map):
        starts[axis] = indices[..., i].astype(np.int64)
    for axis, of_index in zip(batching, of_indices, strict=True):
        along = [1] * len(batch)
        along[of_index] = batch[of_index]
        starts[axis] = np.arange(batch[of_index]).reshape(along)
    inside = np.ones((1,) * len(batch), bool)
    places = []
    for axis, (start, size, whole) in enumerate(zip(starts, sizes, shape, strict=True)):
        inside = inside & (start >= 0) & (start <= whole - size)
        start = np.clip(start, 0, max(whole - size, 0)) if is_clipped or axis not in batching else start
        along = [1] * rank
        along[axis] = size
        places.append(start.reshape((*start.shape, *[1] * rank)) + np.arange(size).reshape(along))
    return places, np.broadcast_to(inside, batch)


def _mode(equation: JaxEquation) -> str:
    """Return "CLIP", "FILL_OR_DROP" or "PROMISE_IN_BOUNDS"."""
    return str(equation.params["mode"]).rpartition(".")[2]


@evaluates("gather")
def _gather(equation: JaxEquation) -> Arrays:
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    operand, dtype = equation.invars[0].aval, dtype_of(equation.outvars[0])
    is_filled = _mode(equation) == "FILL_OR_DROP"
    fill = equation.params.get("fill_value")
    if fill is None:
        fill = (
            np.nan if is_floating(dtype) else True if dtype.kind == "b"
            else np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
        )  # fmt: skip
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    offsets = numbers.offset_dims
    read = [axis for axis in range(operand.ndim) if sizes[axis] < operand.shape[axis] or axis in gone]
    require(0 not in operand.shape)

    def gather(x: Any, indices: Any) -> Any:
        places, inside = _places(
            indices, numbers.start_index_map, numbers.operand_batching_dims, numbers.start_indices_batching_dims,
            sizes, operand.shape, True,
        )  # fmt: skip
        batch = indices.ndim - 1
        if len(read) == 1 and sizes[read[0]] == 1:  # whole slices of one axis
            (axis,) = read
            index = np.broadcast_to(places[axis], (*indices.shape[:-1], *[1] * operand.ndim))
            parts = np.expand_dims(np.take(x, index[(..., *[0] * operand.ndim)], axis), batch + axis)
            parts = np.moveaxis(parts, range(axis, axis + batch), range(batch))
        else:
            parts = x[tuple(places)]
        if is_filled:
            inside = inside.reshape((*inside.shape, *[1] * operand.ndim))
            parts = np.where(inside, parts, np.asarray(fill, dtype))
        parts = np.broadcast_to(parts, (*indices.shape[:-1], *sizes))
        parts = parts.reshape((*indices.shape[:-1], *(size for axis, size in enumerate(sizes) if axis not in gone)))
        return np.moveaxis(parts, range(batch, parts.ndim), offsets)

    return gather


_WRITES = {
    "scatter": None, "scatter-add": np.add, "scatter_add": np.add,
    "scatter-sub": np.subtract, "scatter_sub": np.subtract,
    "scatter_mul": np.multiply, "scatter-mul": np.multiply,
    "scatter_min": np.minimum, "scatter-min": np.minimum, "scatter_max": np.maximum, "scatter-max": np.maximum,
}  # fmt: skip


@evaluates(*_WRITES)
def _scatter(equation: JaxEquation) -> Arrays:
    numbers, operand = equation.params["dimension_numbers"], equation.invars[0].aval
    combine: Any = _WRITES[equation.primitive.name]  # pyright: ignore
    updates = equation.invars[2].aval
    window = numbers.update_window_dims
    gone = sorted((*numbers.inserted_window_dims, *numbers.operand_batching_dims))
    sizes, shape = [1] * operand.ndim, iter([updates.shape[axis] for axis in window])
    for axis in range(operand.ndim):
        if axis not in gone:
            sizes[axis] = next(shape)
    is_clipped = _mode(equation) == "CLIP"
    steps = [prod(operand.shape[axis + 1 :]) for axis in range(operand.ndim)]
    require(0 not in operand.shape)

    def scatter(x: Any, indices: Any, values: Any) -> Any:
        places, inside = _places(
            indices, numbers.scatter_dims_to_operand_dims, numbers.operand_batching_dims,
            numbers.scatter_indices_batching_dims, sizes, operand.shape, is_clipped,
        )  # fmt: skip
        batch = indices.shape[:-1]
        values = np.moveaxis(values, window, range(len(batch), values.ndim)).reshape((*batch, *sizes))
        written = np.array(x, order="C")
        # One index is several times as fast as one of each axis.
        flat = np.broadcast_to(sum(place * step for place, step in zip(places, steps, strict=True)), values.shape)
        if not is_clipped and not inside.all():
            flat, values = flat[inside], values[inside]
        if combine is None:
            written.reshape(-1)[flat] = values
        else:
            combine.at(written.reshape(-1), flat.reshape(-1), values.reshape(-1))
        return written

    return scatter
