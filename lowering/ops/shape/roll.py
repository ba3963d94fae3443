"""JAX rules of the operators that shift, turn and surround arrays as NumPy does."""

from __future__ import annotations

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
