"""IntervalSampler: samples at equal distances."""

from __future__ import annotations

from collections.abc import Iterator

from lowering.messages.counts import check_count
from lowering.mx.gluon.data.sampler import Sampler
from lowering.mx.gluon.gluon_errors import MismatchError

__all__ = ["IntervalSampler"]


class IntervalSampler(Sampler):
    """The numbers below `length` from 0 in steps of `interval`; rollover: then from 1, and so on until all are had."""

    def __init__(self, length: int, interval: int, rollover: bool = True):
        if check_count(interval, "interval") > length:
            raise MismatchError(f"Interval {interval} must be smaller than or equal to length {length}")
        self._length, self._interval, self._rollover = length, interval, rollover

    def __iter__(self) -> Iterator[int]:
        for first in range(self._interval if self._rollover else 1):
            yield from range(first, self._length, self._interval)

    def __len__(self) -> int:
        return self._length if self._rollover else len(range(0, self._length, self._interval))
