"""Element-wise functions and extremes of arrays whose last axis has two to four elements, as windows of pooling have.

NumPy's innermost loop runs along the last axis, and begins anew for each two elements: 14 ns an element. Here it runs
along a longer axis, once for each place on the short ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from lowering.host.placed import empty
from lowering.host.primitives import Arrays

_SHORT, _MOST, _FEWEST = 4, 16, 1 << 12
"""The longest last axis that is short, as axes are that are no longer; the most places on all of them; and the fewest
elements for which it pays. The gradient of a pooling of (64, 20, 24, 24) by windows of 2² takes 13 ms, not 34."""

ELEMENT_WISE = frozenset(
    (
        "add",
        "add_any",
        "sub",
        "mul",
        "div",
        "max",
        "min",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "and",
        "or",
        "select_n",
        "clamp",
    )
)
"""Primitives of several arrays that have the shape of the result, or one element."""


def short_axes(shape: Sequence[int]) -> tuple[int, ...]:
    """The axes of an array that the innermost loop should not run along; none where it runs far enough."""
    if not shape or shape[-1] > _SHORT or prod(shape) < _FEWEST:
        return ()
    axes = [i for i, size in enumerate(shape) if 1 < size <= shape[-1]]
    places = prod(shape[i] for i in axes)
    return tuple(axes) if axes[-1:] == [len(shape) - 1] and places <= _MOST and prod(shape) > places else ()


def _places(shape: Sequence[int], axes: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Yield indices of the parts of an array, each at one place of some axes."""
    for place in product(*(range(shape[i]) for i in axes)):
        index: list[Any] = [slice(None)] * len(shape)
        for axis, number in zip(axes, place, strict=True):
            index[axis] = number
        yield tuple(index)


def along_longer_axes(function: Arrays, shape: tuple[int, ...], dtype: Any) -> Arrays:
    """An element-wise function, place by place of the short axes of its result, which has this shape."""
    axes = short_axes(shape)
    if not axes:
        return function
    parts = [*_places(shape, axes)]
    others = [i for i in range(len(shape)) if i not in axes]
    in_memory = tuple(shape[i] for i in (*axes, *others))
    in_order = np.argsort((*axes, *others))

    def computed(*arrays: Any) -> Any:
        if all(array.size == 1 or (array.shape == shape and array.flags.c_contiguous) for array in arrays):
            return function(*arrays)  # one loop through all elements
        result = empty(in_memory, dtype).transpose(in_order)
        whole = [np.broadcast_to(array, shape) if array.ndim else array for array in arrays]
        for part in parts:
            result[part] = function(*[array[part] if array.ndim else array for array in whole])
        return result

    return computed


def reduced_over_short_axes(combine: np.ufunc, shape: tuple[int, ...], axes: tuple[int, ...]) -> Arrays | None:
    """A function that combines the elements along axes, all short and the last among them; None for other axes."""
    if not axes or sorted(axes) != [*short_axes(shape)]:
        return None
    first, *further = _places(shape, sorted(axes))

    def reduced(x: Any) -> Any:
        result = np.array(x[first])
        for part in further:
            combine(result, x[part], out=result)
        return result

    return reduced


def copied_along_longer_axes(x: Any) -> Any:
    """An array whose elements lie one after the other."""
    axes = () if x.flags.c_contiguous else short_axes(x.shape)
    if not axes:
        return x
    copy = empty(x.shape, x.dtype)
    for part in _places(x.shape, axes):
        copy[part] = x[part]
    return copy
