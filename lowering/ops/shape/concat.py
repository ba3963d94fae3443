"""JAX rules of the operators that join and split arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from symjax_nnvm.ops.shape import concat as ops


@lowers("Concat", "_rnn_param_concat")
def _concat(p: ops.ConcatParams, *arrays: Array) -> Array:
    return _joined(arrays, p.dim % arrays[0].ndim)


def _joined(arrays: Sequence[Array], axis: int) -> Array:
    joined = lax.concatenate(arrays, axis)
    if len({id(array) for array in arrays}) == len(arrays):
        return joined
    # XLA flattens a concatenation whose only reader is another one, however often that reads it: thirteen nested ones
    # of two equal operands took 42 s to compile, behind a barrier 0.06 s.
    return lax.optimization_barrier(joined)


@lowers("_backward_Concat")
def _backward_concat(p: ops.BackwardConcatParams, ograd: Array, *arrays: Array) -> list[Array]:
    axis = p.dim % ograd.ndim
    return list(lax.split(ograd, [array.shape[axis] for array in arrays], axis))


def _lower_join(join: ops.Join) -> None:
    @lowers(join.name)
    def forward(p: Any, *arrays: Array) -> Array:
        lifted = [array.reshape(join.lifted(p, array.shape)) for array in arrays]
        ndim = lifted[0].ndim
        return _joined(lifted, join.axis(p, ndim) % ndim)

    @lowers(join.adjoint)
    def backward(p: Any, ograd: Array, *arrays: Array) -> list[Array]:
        axis = join.axis(p, ograd.ndim) % ograd.ndim
        sizes = [join.lifted(p, array.shape)[axis] for array in arrays]
        parts = lax.split(ograd, sizes, axis)
        return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]


for _join in ops.JOINS:
    _lower_join(_join)


@lowers("stack", "_npi_stack")
def _stack(p: ops.StackParams, *arrays: Array) -> Array:
    return jnp.stack(arrays, p.axis)


@lowers("SliceChannel", "_split_v2")
def _split(p: Any, data: Array) -> list[Array]:
    return _parts(p, data, p.axis % data.ndim)


def _parts(p: Any, data: Array, axis: int) -> list[Array]:
    parts = lax.split(data, ops.lengths(p, data.shape[axis]), axis)
    return [lax.squeeze(part, (axis,)) for part in parts] if p.squeeze_axis else list(parts)


def _lower_split(name: str, of: Callable[[int], int]) -> None:
    lowers(name)(lambda p, data: _parts(p, data, of(data.ndim)))


for _name, _of in ops.SPLIT_AXES.items():
    _lower_split(_name, _of)
