"""A meeting of lanes: sums over all samples, in the middle of a step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np


class Meeting:
    """Adds up vectors of all lanes, for each of them, in the order of the lanes.

    The last to come adds up and opens the others' gates: a meeting of two lanes with two arrays takes 90 µs. Where
    each lane adds up array by array behind a `threading.Barrier` it takes 122, a step of MobileNet 1.015 times as long.

    is_ended: whether lanes fail that are there, or come. error: why adding up failed, which a program tells in words of
    its own; None where it did not.
    """

    def __init__(self, count: int):
        self._lock, self._gates = threading.Lock(), [threading.Lock() for _ in range(count)]
        self._there: dict[int, Sequence[np.ndarray]] = {}
        self._sums: list[np.ndarray] = []
        self.error: BaseException | None = None
        self.begin()

    def begin(self) -> None:
        """Let lanes meet, again where their meeting was ended."""
        self.is_ended, self.error = False, None
        self._there.clear()
        for gate in self._gates:
            gate.acquire(blocking=False)

    def end(self) -> None:
        """Let lanes that are there, or come later, fail."""
        with self._lock:
            self.is_ended = True
            self._let_go()

    def __call__(self, number: np.ndarray, *vectors: np.ndarray) -> list[np.ndarray]:
        """Return the lane's number, and the sums. Raises BrokenBarrierError where the meeting was ended."""
        lane = int(number)
        with self._lock:
            waits = len(self._there) + 1 < len(self._gates) and not self.is_ended
            self._there[lane] = vectors  # in memory of the lane's program, which waits
            if not waits:
                self._add()
                del self._there[lane]
                self._let_go()
        if waits:
            self._gates[lane].acquire()
        if self.is_ended:
            raise threading.BrokenBarrierError
        return [number, *self._sums]

    def _add(self) -> None:
        if self.is_ended:
            return
        in_order = (self._there[lane] for lane in range(len(self._gates)))
        try:
            self._sums = [reduce(np.add, of_lanes) for of_lanes in zip(*in_order, strict=True)]
        except BaseException as error:
            self.error = error
            raise

    def _let_go(self) -> None:
        for lane in self._there:
            self._gates[lane].release()
        self._there.clear()


def sum_of_lanes(
    call: Callable[..., list[jax.Array]], number: jax.Array, arrays: Sequence[jax.Array]
) -> tuple[jax.Array, list[jax.Array]]:
    """Return the lane's number, when the lanes have met, and the sums: those of a dtype meet as one vector."""
    dtypes = [*dict.fromkeys(array.dtype for array in arrays)]
    vectors = [jnp.concatenate([a.ravel() for a in arrays if a.dtype == dtype]) for dtype in dtypes]
    kinds = ((), *(vector.shape for vector in vectors)), (number.dtype, *dtypes)
    number, *sums = call(number, *vectors, results=kinds)
    parts = {}
    for dtype, total in zip(dtypes, sums, strict=True):
        ends = np.cumsum([array.size for array in arrays if array.dtype == dtype])
        parts[dtype] = iter(jnp.split(total, ends[:-1]))
    return number, [next(parts[array.dtype]).reshape(array.shape) for array in arrays]
