"""JAX rules of the operators on batches of sequences of different lengths."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import number_as
from symjax_nnvm.ops.nn import sequence as ops


def whole_lengths(lengths: Array) -> Array:
    """Lengths, which MXNet gives in any dtype, as int32: fractions are truncated."""
    return lengths.astype(jnp.int32)


def _along_batch(lengths: Array, axis: int, ndim: int) -> Array:
    """Return one integer for each sequence, shaped to be broadcast over data."""
    return lax.expand_dims(whole_lengths(lengths), [i for i in range(ndim) if i != 1 - axis])


def _steps(like: Array, axis: int) -> Array:
    """Return the number of each step, shaped to be broadcast over data."""
    return lax.broadcasted_iota(jnp.int32, [d if i == axis else 1 for i, d in enumerate(like.shape)], axis)


@lowers("SequenceMask")
def _sequence_mask(p: ops.SequenceMaskParams, data: Array, lengths: Array | None = None) -> Array:
    if lengths is None:
        return data
    inside = _steps(data, p.axis) < _along_batch(lengths, p.axis, data.ndim)
    return jnp.where(inside, data, number_as(p.value, data.dtype))


@lowers("SequenceReverse")
def _sequence_reverse(p: ops.SequenceParams, data: Array, lengths: Array | None = None) -> Array:
    if lengths is None:
        return lax.rev(data, [p.axis])
    steps = _steps(data, p.axis)
    length = jnp.minimum(_along_batch(lengths, p.axis, data.ndim), data.shape[p.axis])
    places = jnp.where(steps < length, length - 1 - steps, steps)
    return jnp.take_along_axis(data, places, p.axis, mode="promise_in_bounds")


def _last_step(p: ops.SequenceParams, data: Array, lengths: Array) -> Array:
    return jnp.clip(_along_batch(lengths, p.axis, data.ndim) - 1, 0, data.shape[p.axis] - 1)


@lowers("SequenceLast")
def _sequence_last(p: ops.SequenceParams, data: Array, lengths: Array | None = None) -> Array:
    if lengths is None:
        return lax.index_in_dim(data, data.shape[p.axis] - 1, p.axis, keepdims=False)
    last = _last_step(p, data, lengths)
    return jnp.take_along_axis(data, last, p.axis, mode="promise_in_bounds").squeeze(p.axis)


@lowers("_backward_SequenceLast")
def _backward_sequence_last(p: ops.SequenceParams, ograd: Array, data: Array, lengths: Array | None = None) -> Array:
    # A comparison with the steps' numbers fuses with its users; a scatter would not.
    last = data.shape[p.axis] - 1 if lengths is None else _last_step(p, data, lengths)
    hit = _steps(data, p.axis) == last
    return jnp.where(hit, jnp.expand_dims(ograd, p.axis), jnp.zeros((), ograd.dtype))
