"""`Recent`: a mapping that keeps a limited number of entries, those that were used last."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Holds values by key, up to `limit`: the least recently used is dropped. None: all stay.

    Setting and getting are uses. May be used from many threads. A dropped value stays alive for callers that hold it.
    """

    def __init__(self, limit: int | None):
        self._limit = limit
        self._values: dict[K, V] = {}  # in the order of their last use
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return the value of a key; None where there is none."""
        with self._lock:
            if key not in self._values:
                return None
            value = self._values[key] = self._values.pop(key)
            return value

    def __setitem__(self, key: K, value: V) -> None:
        with self._lock:
            self._values.pop(key, None)
            self._put(key, value)

    def setdefault(self, key: K, value: V) -> V:
        """Return the value of a key; where there is none, this one from now on."""
        with self._lock:
            return self._put(key, self._values.pop(key, value))

    def _put(self, key: K, value: V) -> V:
        self._values[key] = value
        if self._limit is not None and len(self._values) > self._limit:
            del self._values[next(iter(self._values))]
        return value

    def items(self) -> list[tuple[K, V]]:
        """Return keys and values, those that were used last at the end. This does not count as a use."""
        with self._lock:
            return [*self._values.items()]

    def __len__(self) -> int:
        return len(self._values)
