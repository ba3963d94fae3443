"""Random numbers that are the same in every version of NumPy.

NumPy promises the bits of a bit generator for all time, but not the numbers that its other functions make of them.
"""

from __future__ import annotations

import math

import numpy as np


class Draws:
    """Draws numbers from a bit generator, one after another."""

    def __init__(self, bits: np.random.BitGenerator):
        self._bits = bits

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Return a number from `low` on, below `high`."""
        return low + (high - low) * ((int(self._bits.random_raw()) >> 11) * 2.0**-53)

    def whole(self, low: int, high: int) -> int:
        """Return a whole number from `low` to `high`, both included."""
        return low + math.floor(self.uniform() * (high - low + 1))

    def normal(self, deviation: float) -> float:
        """Return a number of a normal distribution around 0."""
        radius = math.sqrt(-2.0 * math.log(1.0 - self.uniform()))
        return deviation * radius * math.cos(2.0 * math.pi * self.uniform())

    def shuffled(self, count: int) -> list[int]:
        """Return the numbers below `count` in any order."""
        return sorted(range(count), key=[self.uniform() for _ in range(count)].__getitem__)


def draws_of(*numbers: int) -> Draws:
    """Return the numbers that belong to a few numbers: a seed, an epoch, a sample."""
    return Draws(np.random.PCG64(np.random.SeedSequence([number % (1 << 64) for number in numbers])))
