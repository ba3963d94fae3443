"""`mx.engine`: how many operators MXNet's engine runs together. XLA runs compiled graphs: the size changes nothing."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lowering.messages.counts import checks_flags

_sizes = threading.local()


@checks_flags
def set_bulk_size(size: int) -> int:
    """Set this thread's size, and return the one before, at first 0."""
    before = getattr(_sizes, "size", 0)
    _sizes.size = operator.index(size)
    return before


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """A block with another size."""
    before = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(before)
