"""Keys of JAX's own generator, made by NumPy: JAX would compile a program to make one of a seed, and one to fold."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from lowering.host.primitives import is_threefry
from lowering.host.threefry_bits import folded

_IMPLEMENTATION = "threefry2x32"


def key_of_seed(seed: int, number: int | None = None) -> jax.Array:
    """The key of a seed, as `jax.random.key` makes it; with a number from 0 to 2³² - 1 what `jax.random.fold_in` makes
    of both. Raises OverflowError for more than 64 bits, as there."""
    return as_key(words_of_seed(seed, number))


def words_of_seed(seed: int, number: int | None = None) -> Any:
    """The two words of the same key, in NumPy's memory: to make JAX's array of them takes longer than many draws. The
    key, where it is of another generator."""
    config: Any = jax.config
    if config.jax_default_prng_impl != _IMPLEMENTATION or not -(2**63) <= seed < 2**63:
        key = jax.random.key(seed)
        return key if number is None else jax.random.fold_in(key, number)
    words = seed >> 32 & 0xFFFFFFFF if config.jax_enable_x64 else 0, seed & 0xFFFFFFFF
    return np.array(words if number is None else folded(words, number), np.uint32)


def as_key(words: Any) -> Any:
    """Return words, which may be traced, as a key; anything else, a key or None, is returned unchanged."""
    return (
        jax.random.wrap_key_data(words, impl=_IMPLEMENTATION) if getattr(words, "dtype", None) == np.uint32 else words
    )


def folded_in(key: jax.Array, number: int) -> jax.Array:
    """A new key of a key and a number from 0 to 2³² - 1, as `jax.random.fold_in` makes it."""
    if isinstance(key, Tracer) or not is_threefry(key.dtype) or key.ndim or key.committed:
        return jax.random.fold_in(key, number)
    first, second = np.asarray(jax.random.key_data(key)).tolist()
    return as_key(np.array(folded((first, second), number), np.uint32))
