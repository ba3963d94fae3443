"""JAX rules of the operators that cut, reverse and pad."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import number_as
from symjax_nnvm.ir.rules.size_symbols import is_open
from symjax_nnvm.ops.shape import slice as ops


def _zero(data: Array) -> Array:
    return jnp.zeros((), data.dtype)


@lowers("slice_axis")
def _slice_axis(p: ops.SliceAxisParams, data: Array) -> Array:
    piece = ops.axis_piece(p, data.shape[p.axis])
    return lax.slice_in_dim(data, piece.start, piece.stop, axis=p.axis)


@lowers("_backward_slice_axis")
def _backward_slice_axis(p: ops.SliceAxisParams, ograd: Array, data: Array) -> Array:
    length = data.shape[p.axis]
    piece = ops.axis_piece(p, length)
    widths = [(0, 0, 0)] * data.ndim
    widths[p.axis] = (piece.start, length - piece.stop, 0)
    return lax.pad(ograd, _zero(ograd), widths)


def _ranges(p: ops.SliceParams, data: Array) -> list[range]:
    return [ops.kept_indices(p, i, length) for i, length in enumerate(data.shape)]


def index_of(p: ops.SliceParams) -> tuple[slice, ...]:
    """The slice as JAX takes it."""
    return tuple(map(slice, p.begin, p.end, p.steps))


def cuts_open_axes(p: ops.SliceParams, shape: Sequence[int]) -> bool:
    """Whether an axis is cut whose size was left open, so that there is no range of its indices."""
    return any(is_open(length) for length in shape[: len(p.begin)])


@lowers("slice")
def _slice(p: ops.SliceParams, data: Array) -> Array:
    if cuts_open_axes(p, data.shape):
        return data[index_of(p)]
    # Backwards pieces are cut forwards and turned around: static slices, where indexing might gather.
    ranges = _ranges(p, data)
    forward = [r if r.step > 0 else r[::-1] for r in ranges]
    piece = lax.slice(
        data, [r.start for r in forward], [r[-1] + 1 if r else 0 for r in forward], [r.step for r in forward]
    )
    return _turned(piece, ranges)


def _turned(array: Array, ranges: list[range]) -> Array:
    backwards = [i for i, r in enumerate(ranges) if r.step < 0]
    return lax.rev(array, backwards) if backwards else array


@lowers("_backward_slice")
def _backward_slice(p: ops.SliceParams, ograd: Array, data: Array) -> Array:
    if cuts_open_axes(p, data.shape):
        return jnp.zeros(data.shape, ograd.dtype).at[index_of(p)].set(ograd)
    ranges = _ranges(p, data)
    forward = [r if r.step > 0 else r[::-1] for r in ranges]
    widths = [
        (r[0], length - 1 - r[-1], r.step - 1) if r else (length, 0, 0)
        for r, length in zip(forward, data.shape, strict=True)
    ]
    return lax.pad(_turned(ograd, ranges), _zero(ograd), widths)


@lowers("slice_like")
def _slice_like(p: ops.SliceLikeParams, data: Array, like: Array) -> Array:
    return lax.slice(data, [0] * data.ndim, [dim or 0 for dim in ops.cut_shape(p, data.shape, like.shape)])


@lowers("_backward_slice_like")
def _backward_slice_like(p, ograd: Array, data: Array) -> Array:
    widths = [(0, whole - part, 0) for whole, part in zip(data.shape, ograd.shape, strict=True)]
    return lax.pad(ograd, _zero(ograd), widths)


@lowers("reverse", "_npi_flip")
def _reverse(p: ops.ReverseParams | ops.FlipParams, data: Array) -> Array:
    return lax.rev(data, p.turned(data.ndim))


@lowers("Pad")
def _pad(p: ops.PadParams, data: Array) -> Array:
    if p.mode == "constant":
        value = jnp.asarray(number_as(p.constant_value, data.dtype))
        return lax.pad(data, value, [(before, after, 0) for before, after in p.widths])
    return jnp.pad(data, p.widths, mode=p.mode)


@lowers("_backward_Pad")
def _backward_pad(p: ops.PadParams, ograd: Array) -> Array:
    grad = ograd
    for axis, (before, after) in enumerate(p.widths):
        if p.mode == "constant" or not (before or after):
            grad = lax.slice_in_dim(grad, before, grad.shape[axis] - after, axis=axis)
        else:
            grad = _fold_border(grad, axis, before, after, reflect=p.mode == "reflect")
    return grad


def _fold_border(grad: Array, axis: int, before: int, after: int, *, reflect: bool) -> Array:
    """The middle of an axis, with each border added to the elements it was copied from."""
    length = grad.shape[axis] - before - after
    total = lax.slice_in_dim(grad, before, before + length, axis=axis)
    for start, width, at_end in ((0, before, False), (before + length, after, True)):
        if not width:
            continue
        border = lax.slice_in_dim(grad, start, start + width, axis=axis)
        if reflect:
            border = lax.rev(border, (axis,))
        else:
            border = jnp.sum(border, axis, dtype=grad.dtype, keepdims=True)
        size, inset = border.shape[axis], int(reflect)  # a mirror image leaves the edge itself out
        widths = [(0, 0, 0)] * grad.ndim
        gap = length - size - inset
        widths[axis] = (gap, inset, 0) if at_end else (inset, gap, 0)
        total = total + lax.pad(border, _zero(grad), widths)
    return total
