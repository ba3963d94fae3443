"""Random bits from JAX's keys: threefry (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
2011), counted as JAX counts them where its generator is partitionable. A key is an array of two words at the end."""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import numpy as np

from lowering.host.primitives import Arrays, JaxEquation, dtype_of, evaluates, is_threefry, require

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

_AT_ONCE = 1 << 15
"""Words that are computed at once: they stay in a core's cache. Nanoseconds of each of a million: 22
so, 75 all at once."""

_OF_A_CALL = 125.0
"""Microseconds of a call for few words: NumPy is called 125 times."""


def threefry(key: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Return the two words that two words become by a key."""
    words = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    x, y = first + words[0], second + words[1]
    for i in range(5):
        for by in _ROTATIONS[i % 2]:
            x += y
            turned = y << np.uint32(by)
            y >>= np.uint32(32 - by)
            y |= turned
            y ^= x
        x += words[(i + 1) % 3]
        y += words[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def folded(key: tuple[int, int], number: int) -> tuple[int, int]:
    """Return the words of the key that a key and a number make: threefry of one count, in Python, which takes a tenth
    of the time of NumPy's numbers."""
    mask = 0xFFFFFFFF
    words = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = words[0], number + words[1] & mask
    for i in range(5):
        for by in _ROTATIONS[i % 2]:
            x = x + y & mask
            y = (y << by & mask | y >> 32 - by) ^ x
        x = x + words[(i + 1) % 3] & mask
        y = y + words[(i + 2) % 3] + i + 1 & mask
    return x, y


def key_from(words: Any, start: int) -> Any:
    """A key whose numbers begin with the one that `start` others come before."""
    return np.array([*words, start >> 32, start & 0xFFFFFFFF], np.uint32)


def _counted(key: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return two words for each element of a shape."""
    begin = (int(key[2]) << 32 | int(key[3])) if len(key) == 4 else 0
    count = prod(shape)
    if begin + count <= _AT_ONCE:
        first, second = threefry(key, np.zeros(count, np.uint32), np.arange(begin, begin + count, dtype=np.uint32))
        return first.reshape(shape), second.reshape(shape)
    words = np.empty((2, count), np.uint32)
    for start in range(0, count, _AT_ONCE):
        counts = np.arange(begin + start, begin + min(start + _AT_ONCE, count), dtype=np.uint64)
        high, low = (counts >> np.uint64(32)).astype(np.uint32), counts.astype(np.uint32)
        words[:, start : start + _AT_ONCE] = threefry(key, high, low)
    return words[0].reshape(shape), words[1].reshape(shape)


def _require_threefry(equation: JaxEquation, key: Any) -> None:
    require(is_threefry(key.aval.dtype) and key.aval.ndim == 0)
    require(bool(getattr(jax.config, "jax_threefry_partitionable", False)))


def _with_its_time(draw: Arrays) -> Arrays:
    vars(draw)["microseconds"] = _OF_A_CALL
    return draw


@evaluates("random_bits")
def _bits(equation: JaxEquation) -> Arrays:
    _require_threefry(equation, equation.invars[0])
    width, shape = equation.params["bit_width"], tuple(equation.params["shape"])
    dtype = dtype_of(equation.outvars[0])

    def bits(key: Any) -> Any:
        first, second = _counted(key, shape)
        if width == 64:
            return first.astype(dtype) << dtype.type(32) | second.astype(dtype)
        return (first ^ second).astype(dtype)

    return _with_its_time(bits)


@evaluates("random_split")
def _split(equation: JaxEquation) -> Arrays:
    _require_threefry(equation, equation.invars[0])
    shape = tuple(equation.params["shape"])
    return _with_its_time(lambda key: np.stack(_counted(key, shape), axis=-1))


@evaluates("random_fold_in")
def _fold_in(equation: JaxEquation) -> Arrays:
    _require_threefry(equation, equation.invars[0])
    require(equation.invars[1].aval.ndim == 0 and dtype_of(equation.invars[1]).itemsize == 4)
    return lambda key, data: np.array(folded((int(key[0]), int(key[1])), int(data) & 0xFFFFFFFF), np.uint32)


@evaluates("random_wrap", "random_unwrap")
def _words(equation: JaxEquation) -> Arrays:
    _require_threefry(equation, equation.outvars[0] if equation.primitive.name == "random_wrap" else equation.invars[0])  # pyright: ignore
    return lambda key: key
