"""Orders of a data set's samples, and batches of their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lowering.messages.counts import check_count, checks_flags
from symjax_nnvm.errors import ParamError

__all__ = ["BatchSampler", "FilterSampler", "RandomSampler", "Sampler", "SequentialSampler"]


class Sampler:
    """The base class of samplers: an iterable of sample numbers, or of lists of them, with a length."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")


class SequentialSampler(Sampler):
    """Consecutive sample numbers.

    Args:
        length: how many there are.
        start: the first one.
    """

    def __init__(self, length: int, start: int = 0):
        self._numbers = range(start, start + check_count(length, "length", 0))

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


class RandomSampler(Sampler):
    """The numbers from 0 to length - 1 in an order that NumPy's global generator draws for each epoch.

    Args:
        length: how many there are.
    """

    def __init__(self, length: int):
        self._length = check_count(length, "length", 0)

    def __iter__(self) -> Iterator[Any]:
        numbers = np.arange(self._length)
        np.random.shuffle(numbers)  # MXNet's generator: one seed, one order
        return iter(numbers)

    def __len__(self) -> int:
        return self._length


class FilterSampler(Sampler):
    """The numbers of the samples for which a function is true.

    Args:
        fn: the function; it is called once for each sample, here.
        dataset: the data set.
    """

    @checks_flags
    def __init__(self, fn: Callable[[Any], Any], dataset: Any):
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self) -> Iterator[int]:
        return iter(self._indices)

    def __len__(self) -> int:
        return len(self._indices)


class BatchSampler(Sampler):
    """Lists of sample numbers, one for each batch.

    Args:
        sampler: the sampler that gives the numbers.
        batch_size: the number of samples in a batch.
        last_batch: what happens to numbers that fill no batch: "keep" makes a smaller batch, "discard" leaves them out,
            "rollover" puts them before the next epoch's.

    Raises:
        ParamError: `last_batch` is another word, or `batch_size` not above 0; the error is a ValueError, too.
    """

    def __init__(self, sampler: Any, batch_size: int, last_batch: str = "keep"):
        if last_batch not in ("keep", "discard", "rollover"):
            problem = f"last_batch must be one of 'keep', 'discard', or 'rollover', but got {last_batch}"
            raise ParamError(problem)
        whole = int(batch_size) if isinstance(batch_size, float) and batch_size.is_integer() else batch_size
        self._sampler, self._batch_size, self._last_batch = sampler, check_count(whole, "batch_size"), last_batch
        self._left: list[Any] = []

    def __iter__(self) -> Iterator[list[Any]]:
        batch, self._left = self._left, []
        for number in self._sampler:
            batch.append(number)
            if len(batch) == self._batch_size:
                yield batch
                batch = []
        if batch and self._last_batch == "keep":
            yield batch
        elif self._last_batch == "rollover":
            self._left = batch

    def __len__(self) -> int:
        count = len(self._sampler)
        if self._last_batch == "keep":
            return -(-count // self._batch_size)
        return (count + len(self._left)) // self._batch_size
