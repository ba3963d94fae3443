"""Keys of JAX's own generator, made by NumPy: JAX would compile a program to make one of a seed, and one to fold."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from lowering.host.primitives import is_threefry
from lowering.host.threefry_bits import threefry

_IMPLEMENTATION = "threefry2x32"


def key_of_seed(seed: int) -> jax.Array:
    """The key of a seed, as `jax.random.key` makes it. Raises OverflowError for more than 64 bits, as there."""
    config: Any = jax.config
    if config.jax_default_prng_impl != _IMPLEMENTATION or not -(2**63) <= seed < 2**63:
        return jax.random.key(seed)
    high = seed >> 32 & 0xFFFFFFFF if config.jax_enable_x64 else 0
    return _key([high, seed & 0xFFFFFFFF])


def folded_in(key: jax.Array, number: int) -> jax.Array:
    """A new key of a key and a number from 0 to 2³² - 1, as `jax.random.fold_in` makes it."""
    if isinstance(key, Tracer) or not is_threefry(key.dtype) or key.ndim or key.committed:
        return jax.random.fold_in(key, number)
    with np.errstate(over="ignore"):  # words wrap
        return _key(threefry(np.asarray(jax.random.key_data(key)), np.uint32(0), np.uint32(number)))


def _key(words: Any) -> jax.Array:
    words = np.array(words, np.uint32)
    return jax.random.wrap_key_data(words, impl=_IMPLEMENTATION)
