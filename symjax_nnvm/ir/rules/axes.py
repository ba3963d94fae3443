"""Axes and dimensions in operator rules: negative axes, partly known sizes, and the wording of errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from symjax_nnvm.errors import InferenceError, ParamError
from symjax_nnvm.ir.types import Shape, format_shape


def normal_axis(axis: int, ndim: int, param: str = "axis") -> int:
    """Return the axis counted from the front. Raises ParamError when an array of `ndim` axes has no such axis."""
    if not -ndim <= axis < ndim:
        raise ParamError("There is no such axis", param=param, expected=f"{-ndim} ≤ axis < {ndim}", got=axis)
    return axis % ndim


def normal_axes(axes: Iterable[int], ndim: int, param: str = "axis") -> tuple[int, ...]:
    """Return the axes counted from the front, in the order given. Raises ParamError when two are one axis."""
    axes = tuple(axes)
    normal = tuple(normal_axis(axis, ndim, param) for axis in axes)
    if len(set(normal)) != len(normal):
        raise ParamError("An axis is named twice", param=param, expected="distinct axes", got=axes)
    return normal


def known(*dims: int | None) -> int | None:
    """Return the first dimension that is known."""
    return next((dim for dim in dims if dim is not None), None)


def completed(*shapes: Shape | None) -> Shape | None:
    """Return the first shape that is known, its unknown dimensions taken from the others of its rank."""
    merged: Shape | None = None
    for shape in shapes:
        if merged is None:
            merged = shape
        elif shape is not None and len(shape) == len(merged):
            merged = tuple(map(known, merged, shape))
    return merged


def without_axis(shape: Shape | None, axis: int) -> Shape | None:
    """Return the shape without one axis; None when it is unknown or has no such axis."""
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    return replaced(shape, axis % len(shape))


def replaced(shape: Shape, axis: int, *dims: int | None) -> Shape:
    """Return the shape with the dimensions `dims` in place of one axis (none: without the axis)."""
    return (*shape[:axis], *dims, *shape[axis + 1 :])


def size_of(dims: Iterable[int | None]) -> int | None:
    """Return the product of dimensions; None when one of them is unknown."""
    dims = tuple(dims)
    return None if None in dims else math.prod(dim for dim in dims if dim is not None)


def solve_sizes(a: Sequence[int | None], b: Sequence[int | None]) -> tuple[Shape, Shape]:
    """Two lists of dimensions with the same number of elements: the one unknown of either is computed.

    Raises InferenceError when no dimension makes them equal.
    """
    sizes = size_of(a), size_of(b)
    if sizes[0] is not None and sizes[1] is not None and sizes[0] != sizes[1]:
        raise _unequal(a, b)
    if sizes[0] is not None:
        return tuple(a), _solve(b, sizes[0], a)
    if sizes[1] is not None:
        return _solve(a, sizes[1], b), tuple(b)
    return tuple(a), tuple(b)


def _solve(dims: Sequence[int | None], size: int, other: Sequence[int | None]) -> Shape:
    product = math.prod(dim for dim in dims if dim is not None)
    if list(dims).count(None) != 1 or product == 0:
        return tuple(dims)
    if size % product:
        raise _unequal(other, dims)
    return tuple(size // product if dim is None else dim for dim in dims)


def _unequal(a: Sequence[int | None], b: Sequence[int | None]) -> InferenceError:
    return InferenceError(
        "The number of elements would change",
        expected=f"as many elements as {format_shape(tuple(a))}",
        got=format_shape(tuple(b)),
    )
