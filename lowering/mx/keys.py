"""The PRNG key behind `mx.random.seed`: eager draws, dropout and initial values take their numbers from it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from lowering.host.numpy_keys import as_key, key_of_seed, words_of_seed
from lowering.mx.context import Context, as_context
from symjax_nnvm.errors import ParamError


class _Keys:
    """A seed with the numbers of its keys; each number goes to one thread, because `next` of a count is atomic."""

    def __init__(self):
        self.begin(0)

    def begin(self, seed: int) -> None:
        """Begin a sequence. Seed and numbers are one value, so that no thread sees one without the other."""
        self.sequence: tuple[int, Iterator[int]] = seed, itertools.count(1)


_keys = _Keys()


def seed(seed_state: int, ctx: Context | str | None = "all") -> None:
    """Restart the sequence of random numbers on all devices. Numbers are JAX's, not those of MXNet's generators.

    Args:
        seed_state: the seed.
        ctx: a context or "all"; both restart all devices.

    Raises:
        ParamError: the seed is not a whole number; the error is a ValueError, too.
    """
    if not isinstance(seed_state, int | np.integer):
        raise ParamError("seed_state must be int", got=repr(seed_state), fix="mx.random.seed(0)")
    if ctx != "all":
        as_context(ctx)
    _keys.begin((int(seed_state) + 2**63) % 2**64 - 2**63)  # MXNet's seed wraps, too


def next_key() -> jax.Array:
    """A new PRNG key."""
    return as_key(next_words())


def next_words() -> Any:
    """The words of the next key, which `as_key` makes one of."""
    seed, numbers = _keys.sequence
    return words_of_seed(seed, next(numbers))


def next_randomness() -> tuple[jax.Array, int]:
    """What the next key is made of: the key of the seed, and a number that no other key of it has."""
    seed, numbers = _keys.sequence
    return key_of_seed(seed), next(numbers)
