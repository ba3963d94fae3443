"""What windows that move over an array have at one of their places, and the transpose of that.

A place is numbered as the elements of a window are, the last axis fastest. Its number is an int, or an array inside a
loop: windows of many places are gone through in a loop, as XLA's compiler takes 4 ms for each that is written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import Array, lax

Number = int | Array

WRITTEN_OUT = 256
"""Up to this many places of a window are operations of their own."""


def position(kernel: Sequence[int], i: Number) -> tuple[Any, ...]:
    """The position of place number i in a window."""
    coordinates: list[Any] = []
    for k in reversed(kernel):
        coordinates.append(i % k)
        i = i // k
    return tuple(reversed(coordinates))


def per_axis(ndim: int, axes: Sequence[int], values: Sequence[Any], default: Any = 1) -> list[Any]:
    """The values at their axes, the default at others."""
    by_axis = [default] * ndim
    for axis, value in zip(axes, values, strict=True):
        by_axis[axis] = value
    return by_axis


def _reach(counts: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the extent of one place of all windows."""
    return [(n - 1) * stride + 1 for n, stride in zip(counts, strides, strict=True)]


def cut(x: Array, axes: Sequence[int], begin: Sequence[Any], counts: Sequence[int], strides: Sequence[int]) -> Array:
    """A number of elements, a stride apart, of each of the axes from `begin` on."""
    first, steps = per_axis(x.ndim, axes, begin, 0), per_axis(x.ndim, axes, strides)
    sizes = list(x.shape)
    for axis, reach in zip(axes, _reach(counts, strides), strict=True):
        sizes[axis] = reach
    if all(isinstance(at, int) for at in begin):
        return lax.slice(x, first, [a + d for a, d in zip(first, sizes, strict=True)], steps)
    return lax.slice(lax.dynamic_slice(x, first, sizes), [0] * x.ndim, sizes, steps)


def add(whole: Array, x: Array, axes: Sequence[int], begin: Sequence[Any], strides: Sequence[int]) -> Array:
    """The transpose of `cut`: x is added where it would be cut out."""
    first, steps = per_axis(whole.ndim, axes, begin, 0), per_axis(whole.ndim, axes, strides)
    reaches, zero = _reach(x.shape, steps), np.zeros((), x.dtype)
    if all(isinstance(at, int) for at in begin):  # padding fuses with its users, an update does not
        spans = zip(first, reaches, whole.shape, steps, strict=True)
        return whole + lax.pad(x, zero, [(at, size - at - reach, step - 1) for at, reach, size, step in spans])
    apart = lax.pad(x, zero, [(0, 0, step - 1) for step in steps])
    return lax.dynamic_update_slice(whole, lax.dynamic_slice(whole, first, reaches) + apart, first)


def fold(
    kernel: Sequence[int],
    step: Callable[[Number, Array], Array],
    value: Array,
    first: int = 0,
    *,
    loop: bool = False,
) -> Array:
    """`value = step(i, value)` for the number of each place from `first` on, in order; a loop where these are many, or
    on request."""
    count = math.prod(kernel)
    if loop or count > WRITTEN_OUT:
        return lax.fori_loop(first, count, step, value)
    for i in range(first, count):
        value = step(i, value)
    return value
