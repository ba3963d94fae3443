"""JAX rules of the operators that put new values where a mask holds."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from lowering.jax_casts import number_as
from symjax_nnvm.ops.indexing import mask_assign as ops


def _along(mask: Array, data: Array, start_axis: int) -> Array:
    """Return where the mask holds, in a shape that broadcasts against data."""
    after = data.ndim - start_axis - mask.ndim
    holds = mask != jnp.zeros((), mask.dtype)
    return holds.reshape((1,) * start_axis + mask.shape + (1,) * after)


def _numbers(mask: Array) -> Array:
    """Return of each element of a mask how many hold before it, flattened."""
    return jnp.cumsum(mask.reshape(-1) != jnp.zeros((), mask.dtype), dtype=np.int32) - 1


@lowers("_npi_boolean_mask_assign_scalar")
def _assign_scalar(p: ops.MaskAssignScalarParams, data: Array, mask: Array) -> Array:
    return jnp.where(_along(mask, data, p.start_axis), jnp.asarray(number_as(p.value, data.dtype)), data)


def _is_per_element(p: ops.MaskAssignParams, value: tuple[int, ...], data: tuple[int, ...], mask: Array) -> bool:
    """Whether there is a value for each place where the mask holds, not one for all."""
    axis = len(value) - (len(data) - p.start_axis - mask.ndim) - 1
    return axis >= 0 and value[axis] != 1


@lowers("_npi_boolean_mask_assign_tensor")
def _assign_tensor(p: ops.MaskAssignParams, data: Array, mask: Array, value: Array) -> Array:
    if not value.size:  # values for a mask that holds nowhere
        return data
    after = data.shape[p.start_axis + mask.ndim :]
    if _is_per_element(p, value.shape, data.shape, mask):
        axis = value.ndim - len(after) - 1
        spread = jnp.take(value, _numbers(mask), axis, mode="clip")
        value = spread.reshape(*value.shape[:axis], *mask.shape, *value.shape[axis + 1 :])
    elif value.ndim > len(after):  # the axis of length 1 stands for all of the mask's
        axis = value.ndim - len(after) - 1
        value = value.reshape(*value.shape[:axis], *(1,) * mask.ndim, *value.shape[axis + 1 :])
    return jnp.where(_along(mask, data, p.start_axis), value, data)


@lowers("_values_at_mask")
def _backward_assign(p: ops.MaskAssignParams, ograd: Array, mask: Array, value: Array) -> Array:
    masked = jnp.where(_along(mask, ograd, p.start_axis), ograd, jnp.zeros((), ograd.dtype))
    before, after = ograd.shape[: p.start_axis], ograd.shape[p.start_axis + mask.ndim :]
    flat = masked.reshape(*before, mask.size, *after)
    if _is_per_element(p, value.shape, ograd.shape, mask):
        width = value.shape[value.ndim - len(after) - 1]
        placed = jnp.zeros((*before, width, *after), ograd.dtype)
        placed = placed.at[(slice(None),) * len(before) + (_numbers(mask),)].add(flat, mode="drop")
    else:
        placed = jnp.sum(flat, p.start_axis, keepdims=True)
    placed = jnp.sum(placed, tuple(range(placed.ndim - value.ndim)))
    axes = tuple(i for i, dim in enumerate(value.shape) if dim == 1 != placed.shape[i])
    return jnp.sum(placed, axes, keepdims=True)
