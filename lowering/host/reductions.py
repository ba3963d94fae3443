"""Primitives that sum, multiply and compare along axes or in windows, and products of matrices."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from lowering.host.placed import empty
from lowering.host.primitives import Arrays, JaxEquation, dtype_of, evaluates, is_floating, require
from lowering.host.short_axes import reduced_over_short_axes


def accumulator(dtype: np.dtype[Any]) -> Any:
    """The dtype that sums are computed in: more precise than half."""
    return np.float32 if is_floating(dtype) and dtype.itemsize < 4 else dtype


def _lowest(dtype: np.dtype[Any]) -> Any:
    """Return what any number is at least as large as."""
    if dtype.kind == "b":
        return False
    return -np.inf if is_floating(dtype) else np.iinfo(dtype).min


def _highest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return True
    return np.inf if is_floating(dtype) else np.iinfo(dtype).max


@evaluates("reduce_sum", "reduce_prod")
def _sum(equation: JaxEquation) -> Arrays:
    axes, dtype = tuple(equation.params["axes"]), dtype_of(equation.outvars[0])
    reduce = np.sum if equation.primitive.name == "reduce_sum" else np.prod  # pyright: ignore
    require(dtype.kind != "b")
    wide = accumulator(dtype)
    return lambda x: np.asarray(reduce(x, axes, dtype=wide)).astype(dtype, copy=False)


@evaluates("reduce_max", "reduce_min")
def _extreme(equation: JaxEquation) -> Arrays:
    axes, dtype = tuple(equation.params["axes"]), dtype_of(equation.outvars[0])
    combine, first = (
        (np.maximum, _lowest(dtype))
        if equation.primitive.name == "reduce_max"  # pyright: ignore
        else (np.minimum, _highest(dtype))
    )
    by_places = reduced_over_short_axes(combine, tuple(equation.invars[0].aval.shape), axes)
    return by_places or (lambda x: combine.reduce(x, axes, initial=np.asarray(first, dtype)[()]))


@evaluates("reduce_and", "reduce_or", "reduce_xor")
def _logical(equation: JaxEquation) -> Arrays:
    axes = tuple(equation.params["axes"])
    name = equation.primitive.name.removeprefix("reduce_")  # pyright: ignore
    reduce = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[name].reduce
    return lambda x: reduce(x, axes)


@evaluates("argmax", "argmin")
def _arg(equation: JaxEquation) -> Arrays:
    (axis,), dtype = equation.params["axes"], equation.params["index_dtype"]
    function = np.argmax if equation.primitive.name == "argmax" else np.argmin  # pyright: ignore
    return lambda x: np.asarray(function(x, axis)).astype(dtype)


@evaluates("cumsum", "cumprod", "cummax", "cummin")
def _cumulative(equation: JaxEquation) -> Arrays:
    axis, is_reverse, dtype = equation.params["axis"], equation.params["reverse"], dtype_of(equation.outvars[0])
    function = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[
        equation.primitive.name  # pyright: ignore
    ].accumulate
    wide = accumulator(dtype)

    def accumulate(x: Any) -> Any:
        x = np.flip(x, axis) if is_reverse else x
        sums = function(x, axis, dtype=wide).astype(dtype, copy=False)
        return np.flip(sums, axis) if is_reverse else sums

    return accumulate


# -- windows -----------------------------------------------------------------------------------------------------------


def spread(x: Any, padding: Any, dilation: Any, value: Any) -> Any:
    """Return an array with elements between its own, and around them; negative padding cuts."""
    sizes = [(size - 1) * step + 1 if size else 0 for size, step in zip(x.shape, dilation, strict=True)]
    if any(step > 1 for step in dilation):
        wide = np.full(sizes, value, x.dtype)
        wide[tuple(slice(None, None, step) for step in dilation)] = x
        x = wide
    around = [(max(low, 0), max(high, 0)) for low, high in padding]
    if any(low or high for low, high in around):
        x = np.pad(x, around, constant_values=value)
    cuts = tuple(slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in zip(padding, x.shape, strict=True))
    return x[cuts]


def windows(x: Any, sizes: Any, strides: Any, dilation: Any) -> Any:
    """Return the windows of an array: its axes are those of places, then those within a window."""
    reach = [(size - 1) * step + 1 for size, step in zip(sizes, dilation, strict=True)]
    counts = [max(0, (size - r) // s + 1) for size, r, s in zip(x.shape, reach, strides, strict=True)]
    steps = [stride * step for stride, step in zip(x.strides, strides, strict=True)]
    within = [stride * step for stride, step in zip(x.strides, dilation, strict=True)]
    return as_strided(x, (*counts, *sizes), (*steps, *within), writeable=False)


@evaluates("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def _reduce_window(equation: JaxEquation) -> Arrays:
    params, dtype = equation.params, dtype_of(equation.outvars[0])
    kind = equation.primitive.name.removeprefix("reduce_window_")  # pyright: ignore
    combine, first = {
        "sum": (np.add, np.zeros((), dtype)[()]),
        "max": (np.maximum, _lowest(dtype)),
        "min": (np.minimum, _highest(dtype)),
    }[kind]
    rows = [*zip(params["window_dimensions"], params["window_strides"], params["window_dilation"], strict=True)]
    wide, counts = accumulator(dtype), tuple(equation.outvars[0].aval.shape)

    def reduced(x: Any) -> Any:
        result = spread(x, params["padding"], params["base_dilation"], first).astype(wide, copy=False)
        for axis, ((size, stride, step), count) in enumerate(zip(rows, counts, strict=True)):
            span = max(0, (count - 1) * stride + 1)
            parts = [result[(slice(None),) * axis + (slice(i * step, i * step + span, stride),)] for i in range(size)]
            result = parts[0]
            for i, part in enumerate(parts[1:]):
                result = combine(result, part, out=result if i else None)
        return np.array(result, dtype)

    vars(reduced).update(elements=prod(counts) * sum(size for size, _, _ in rows))
    return reduced


# -- products ----------------------------------------------------------------------------------------------------------


_ALONE = (1 << 19) - 1
"""Products of m by k and k by n numbers with m·k·n up to this are computed by the calling thread alone. In larger ones
OpenBLAS, which NumPy's wheels hold, has other threads help, which then wait for work without sleeping. Milliseconds of
the processors for matrices of 256² and 512²: 5 to 17 and 28; in blocks 0.4 and 4; by one thread to which OpenBLAS is
limited 0.4 and 3. But that limit is the process's, not ours."""

_HIGH, _DEEP, _WIDE = 64, 128, 64
"""The sizes of blocks, the best of eight choices for ten shapes of layers: 20 G products a second on a core with AVX2
that others use, 18 with 16, 256 and 64."""

_LONG = 1 << 14
"""Products that are added up one by one. Of a row or a column OpenBLAS shares out far smaller ones; NumPy alone takes
15 ms where blocks take 40 to 60."""


def _cut(size: int, most: int) -> int:
    """Return the size of parts of which none is larger than the most, and all are about equal."""
    return -(-size // -(-size // max(1, most)))


def product(left: Any, right: Any) -> Any:
    """Products of matrices, (…, m, k) with (…, k, n), of one dtype, by the calling thread alone."""
    (*batch, rows, depth), columns = left.shape, right.shape[-1]
    if rows * depth * columns <= _ALONE or not is_floating(left.dtype):
        return np.matmul(left, right)
    if rows == 1 or columns == 1:
        return sum(
            np.einsum("...ij,...jk->...ik", left[..., k : k + _LONG], right[..., k : k + _LONG, :])
            for k in range(0, depth, _LONG)
        )
    result = empty((*batch, rows, columns), left.dtype)
    high, deep = _cut(rows, _HIGH), _cut(depth, _DEEP)
    wide = _cut(columns, _WIDE * _HIGH // high * _DEEP // deep)
    deep = _cut(depth, _ALONE // (high * wide))
    high = _cut(rows, _ALONE // (deep * wide))
    _multiply_blocks(left, right, result, high, deep, wide)
    return result


def _multiply_blocks(left: Any, right: Any, result: Any, high: int, deep: int, wide: int) -> None:
    (*batch, rows, depth), columns = left.shape, right.shape[-1]
    i, j = rows // high, columns // wide  # blocks of full size
    down, along = slice(i * high), slice(j * wide)
    blocks = result[..., down, along].reshape(*batch, i, high, j, wide).swapaxes(-2, -3)
    lefts = left[..., down, :].reshape(*batch, i, 1, high, depth)
    rights = right[..., along].reshape(*batch, 1, depth, j, wide).swapaxes(-2, -3)
    np.matmul(lefts[..., :deep], rights[..., :deep, :], out=blocks)
    for k in range(deep, depth, deep):
        blocks += np.matmul(lefts[..., k : k + deep], rights[..., k : k + deep, :])
    if along.stop < columns:
        part = columns - along.stop
        _multiply_blocks(
            left[..., down, :], right[..., along.stop :], result[..., down, along.stop :], high, deep, part
        )
    if down.stop < rows:
        _multiply_blocks(left[..., down.stop :, :], right, result[..., down.stop :, :], rows - down.stop, deep, wide)


def _multiplied(left: Any, right: Any, dtype: np.dtype[Any]) -> Any:
    """Return products of matrices, (…, m, k) with (…, k, n)."""
    wide = accumulator(dtype)
    left, right = left.astype(wide, copy=False), right.astype(wide, copy=False)
    return product(left, right).astype(dtype, copy=False)


@evaluates("dot_general")
def _dot_general(equation: JaxEquation) -> Arrays:
    (of_left, of_right), (batch_left, batch_right) = equation.params["dimension_numbers"]
    left, right, dtype = (variable.aval for variable in (*equation.invars, equation.outvars[0]))
    require(dtype.dtype.kind != "b")
    free_left = [i for i in range(left.ndim) if i not in (*of_left, *batch_left)]
    free_right = [i for i in range(right.ndim) if i not in (*of_right, *batch_right)]
    count = prod(left.shape[i] for i in of_left)
    batch = [left.shape[i] for i in batch_left]
    rows, columns = prod(left.shape[i] for i in free_left), prod(right.shape[i] for i in free_right)
    result, shape = dtype_of(equation.outvars[0]), tuple(dtype.shape)
    # How much longer a product of two numbers takes than XLA's, in elements. Of floats no longer, for the processors
    # together, but by one of them: between -38e-12 and 4e-12 s for twelve shapes, where a product takes 25e-12.
    of_products = 0.02 if is_floating(result) else 3

    def multiply(x: Any, y: Any) -> Any:
        x = np.transpose(x, (*batch_left, *free_left, *of_left)).reshape(*batch, rows, count)
        y = np.transpose(y, (*batch_right, *of_right, *free_right)).reshape(*batch, count, columns)
        return _multiplied(x, y, result).reshape(shape)

    vars(multiply).update(elements=of_products * prod(shape) * count)
    return multiply
