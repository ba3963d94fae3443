"""JAX rules of the operators that join and split arrays."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.shape import concat as ops


@lowers("Concat", "_rnn_param_concat")
def _concat(p: ops.ConcatParams, *arrays: Array) -> Array:
    joined = lax.concatenate(arrays, p.dim % arrays[0].ndim)
    if len({id(array) for array in arrays}) == len(arrays):
        return joined
    # XLA flattens a concatenation whose only reader is another one, however often that reads it: thirteen nested ones
    # of two equal operands took 42 s to compile, behind a barrier 0.06 s.
    return lax.optimization_barrier(joined)


@lowers("_backward_Concat")
def _backward_concat(p: ops.BackwardConcatParams, ograd: Array, *arrays: Array) -> list[Array]:
    axis = p.dim % ograd.ndim
    return list(lax.split(ograd, [array.shape[axis] for array in arrays], axis))


@lowers("stack")
def _stack(p: ops.StackParams, *arrays: Array) -> Array:
    return jnp.stack(arrays, p.axis)


@lowers("SliceChannel", "_split_v2")
def _split(p: Any, data: Array) -> list[Array]:
    axis = p.axis % data.ndim
    parts = lax.split(data, ops.lengths(p, data.shape[axis]), axis)
    return [lax.squeeze(part, (axis,)) for part in parts] if p.squeeze_axis else list(parts)
