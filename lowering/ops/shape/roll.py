"""JAX rules of the operators that shift, turn and surround arrays as NumPy does."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import number_as
from symjax_nnvm.ops.shape import roll as ops


@lowers("_np_roll")
def _roll(p: ops.RollParams, data: Array) -> Array:
    if p.axis is None:
        return jnp.roll(data, p.shifts[0])
    return jnp.roll(data, p.shifts, p.axis)


@lowers("_npi_rot90")
def _rot90(p: ops.Rot90Params, data: Array) -> Array:
    first, second = p.axes or (0, 1)
    return jnp.rot90(data, p.k, (first, second))


@lowers("_npi_pad")
def _pad(p: ops.NumpyPadParams, data: Array) -> Array:
    widths = p.widths(data.ndim)
    if p.mode == "constant":
        value = jnp.asarray(number_as(p.constant_value, data.dtype))
        return lax.pad(data, value, [(before, after, 0) for before, after in widths])
    return jnp.pad(data, widths, mode=p.mode)


@lowers("_backward_npi_pad")
def _backward_pad(p: ops.NumpyPadParams, ograd: Array, data: Array) -> Array:
    grad = ograd
    for axis, (width, length) in enumerate(zip(p.widths(data.ndim), data.shape, strict=True)):
        if p.mode == "constant" or not any(width):
            grad = lax.slice_in_dim(grad, width[0], width[0] + length, axis=axis)
        else:
            sources = np.pad(np.arange(length), width, mode=p.mode)  # of each place the element that it copied
            shape = (*grad.shape[:axis], length, *grad.shape[axis + 1 :])
            places = (slice(None),) * axis + (sources,)
            grad = jnp.zeros(shape, grad.dtype).at[places].add(grad, mode="promise_in_bounds")
    return grad


def _along(p: ops.NumpyPadParams, of: Array) -> Iterator[tuple[int, tuple[int, int], Array]]:
    """Yield each axis, its widths, and which elements of an array, padded along the axes before, are extreme in it."""
    for axis, width in enumerate(p.widths(of.ndim)):
        extreme = jnp.max if p.mode == "maximum" else jnp.min
        yield axis, width, of == extreme(of, axis, keepdims=True)
        of = jnp.pad(of, [width if i == axis else (0, 0) for i in range(of.ndim)], mode=p.mode)


@lowers("_pad_extremes")
def _pad_extremes(p: ops.NumpyPadParams, data: Array, of: Array) -> Array:
    for axis, width, extreme in _along(p, of):
        border = jnp.sum(jnp.where(extreme, data, 0), axis, keepdims=True, dtype=data.dtype)
        before, after = (jnp.repeat(border, count, axis) for count in width)
        data = jnp.concatenate([before, data, after], axis)
    return data


@lowers("_backward_pad_extremes")
def _backward_pad_extremes(p: ops.NumpyPadParams, ograd: Array, data: Array, of: Array) -> Array:
    grad = ograd
    for axis, width, extreme in reversed(list(_along(p, of))):
        before, inner, after = jnp.split(grad, (width[0], width[0] + of.shape[axis]), axis)
        border = jnp.sum(jnp.concatenate([before, after], axis), axis, keepdims=True, dtype=grad.dtype)
        grad = inner + jnp.where(extreme, border, 0)
    return grad
