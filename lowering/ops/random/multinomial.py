"""JAX rules of the draws from what is listed."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random

from lowering.core.rules import Numbers, lowers
from symjax_nnvm.ops.random import multinomial as ops

_FEW_CLASSES = 64
"""The largest number of classes for which comparing a draw with all is faster than a binary search."""


def draw_classes(key: Array, probabilities: Array, drawn: tuple[int, ...]) -> Array:
    """Return class numbers (…, draws) by inverting the cumulative distribution, in at least float32."""
    cumulative = jnp.cumsum(probabilities.astype(jnp.promote_types(probabilities.dtype, jnp.float32)), axis=-1)
    *batch, count = cumulative.shape
    # Below the last sum, however it was rounded: a class that ends the list with probability 0 is never drawn.
    heights = random.uniform(key, (*batch, math.prod(drawn)), cumulative.dtype) * cumulative[..., -1:]
    method = "compare_all" if count <= _FEW_CLASSES else "scan"

    def search(rows: Array, values: Array) -> Array:
        return jnp.searchsorted(rows, values, side="right", method=method)

    for _ in batch:
        search = jax.vmap(search)
    return jnp.minimum(search(cumulative, heights), count - 1).astype(np.int32)


def _numbered(data: Array, classes: Array) -> Array:
    """Return elements of data (…, k) by class (…, draws)."""
    return jnp.take_along_axis(data, classes, axis=-1, mode="promise_in_bounds")


def _rows_of(draws: Array, data: Array) -> Array:
    """Draws [s]x[t] as class numbers (…, draws), aligned with data [s]x[k]."""
    return draws.astype(np.int32).reshape(*data.shape[:-1], -1)


@lowers("_sample_multinomial", needs=("key",))
def _sample_multinomial(p: ops.MultinomialParams, data: Array, *, key: Array) -> Array | tuple[Array, Array]:
    classes = draw_classes(key, lax.stop_gradient(data), p.shape)
    shape = (*data.shape[:-1], *p.shape) or (1,)
    draws = classes.reshape(shape).astype(jax.dtypes.canonicalize_dtype(p.dtype))
    if not p.get_prob:
        return draws
    return draws, lax.log(_numbered(data, classes)).reshape(shape)


@lowers("_probability_of_draw")
def _probability_of_draw(p: Any, data: Array, draws: Array) -> Array:
    return _numbered(data, _rows_of(draws, data)).reshape(draws.shape)


@lowers("_backward_probability_of_draw")
def _backward_probability_of_draw(p: Any, ograd: Array, data: Array, draws: Array) -> Array:
    classes = _rows_of(draws, data)
    *batch, count = data.shape
    rows = tuple(lax.broadcasted_iota(np.int32, classes.shape, axis) for axis in range(len(batch)))
    zeros = jnp.zeros((*batch, count), ograd.dtype)
    return zeros.at[(*rows, classes)].add(ograd.reshape(classes.shape), mode="promise_in_bounds")


@lowers("_sample_unique_zipfian", needs=("key",))
def _sample_unique_zipfian(p: ops.UniqueZipfianParams, *, key: Array) -> tuple[Array, Array]:
    rows, count = p.shape or (0, 0)
    dtype = jax.dtypes.canonicalize_dtype("int64")
    classes, trials = _unique_zipfian(random.split(key, rows), p.range_max, count)
    return classes.astype(dtype), trials.astype(dtype)


@partial(jax.jit, static_argnums=(1, 2))
@partial(jax.vmap, in_axes=(0, None, None))
def _unique_zipfian(key: Array, range_max: int, count: int) -> tuple[Array, Array]:
    """Return (count different classes in the order of their first draw, the number of draws until the last of them).

    Draws blocks of candidates until enough are different, so that memory grows with count and not with range_max.
    """
    slots = np.arange(2 * count, dtype=np.int32)

    def unfinished(state: tuple[Array, ...]) -> Array:
        return state[2] < count

    def draw_block(state: tuple[Array, ...]) -> tuple[Array, ...]:
        key, numbers, num_found, trials = state
        key, block_key = random.split(key)
        block, is_draw = _zipfian_candidates(block_key, range_max, count)
        # Empty places, and candidates that are not draws, hold range_max, which is not a class.
        values = jnp.concatenate([numbers, jnp.where(is_draw, block, range_max)])
        ordered, places = lax.sort((values, jnp.asarray(slots)), is_stable=True, num_keys=1)
        first = jnp.concatenate([jnp.ones(1, bool), ordered[1:] != ordered[:-1]])
        is_first = jnp.zeros(2 * count, bool).at[places].set(first, unique_indices=True)
        is_new = is_first[count:] & is_draw
        rank = num_found + jnp.cumsum(is_new, dtype=np.int32)
        numbers = numbers.at[jnp.where(is_new, rank - 1, count)].set(block, mode="drop")
        # A draw counts when something was still missing before it.
        trials = trials + jnp.sum(is_draw & (rank - is_new < count), dtype=np.int32)
        return key, numbers, rank[-1], trials

    empty = jnp.full(count, range_max, np.int32)
    _, numbers, _, trials = lax.while_loop(unfinished, draw_block, (key, empty, jnp.int32(0), jnp.int32(0)))
    return numbers, trials


def _zipfian_candidates(key: Array, range_max: int, count: int) -> tuple[Array, Array]:
    """Return (classes, whether each is a draw) by rejection: float32 merges the rare classes of a long list.

    With m = class + 1 the distribution is log(1 + 1/m): m is drawn uniformly from an octave [2^j, 2^(j+1)), as an
    integer, and accepted with the probability of m relative to that of 2^j, which is at least 1/2.
    """
    octaves = np.arange(range_max.bit_length())
    weights = np.cumsum(2.0**octaves * np.log1p(2.0**-octaves))
    of_octave, of_place, of_acceptance = random.split(key, 3)
    bounds = jnp.asarray((weights / weights[-1])[:-1], np.float32)
    heights = random.uniform(of_octave, (count,), np.float32)
    octave = jnp.searchsorted(bounds, heights, side="right", method="compare_all").astype(np.int32)
    bits = random.bits(of_place, (count,), np.uint32) >> 1  # a shift by all 32 bits would be undefined
    start = lax.shift_left(jnp.int32(1), octave)
    m = start + lax.shift_right_logical(bits.astype(np.int32), 31 - octave)
    ratio = jnp.log1p(1 / m.astype(np.float32)) / jnp.log1p(1 / start.astype(np.float32))
    accepted = random.uniform(of_acceptance, (count,), np.float32) < ratio
    return m - 1, accepted & (m <= range_max)


@lowers("_shuffle", needs=("key",), numbers=Numbers("JAX draws only permutations of a known length", axes=(0,)))
def _shuffle(p: Any, data: Array, *, key: Array) -> Array:
    return random.permutation(key, data, axis=0) if data.ndim else data
