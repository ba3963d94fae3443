"""DataLoader: batches of a data set's samples, which threads make ahead of their use.

MXNet's workers are processes made by fork, which a process with JAX's threads cannot be forked into safely: a lock that
another thread holds is held in the copy for ever. Processes that begin anew would have to be sent the data set, which
one with a lambda cannot be. So workers are threads, always; what decodes and resizes images lets others run meanwhile.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, wait
from multiprocessing.reduction import ForkingPickler as ForkingPickler
from typing import Any

import numpy as np

from lowering.messages.counts import checks_flags
from lowering.mx.context import Context, cpu_pinned
from lowering.mx.gluon.data.batch_rows import rows_like, rows_of
from lowering.mx.gluon.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from lowering.mx.gluon.gluon_errors import MismatchError
from lowering.mx.io.workers import Workers
from lowering.mx.ndarray.array import NDArray
from lowering.mx.util import in_these_modes
from symjax_nnvm.errors import NNVMError, ParamError

__all__ = ["DataLoader"]

Batchify = Callable[[list[Any]], Any]


class WorkerTimeoutError(NNVMError, multiprocessing.TimeoutError, TimeoutError):
    """A batch that was not made in time."""


def default_batchify_fn(data: Sequence[Any]) -> Any:
    """The batch of some samples: an array (n, …) of their arrays or numbers; for tuples a list of such arrays.

    Dtypes are the samples'; JAX keeps numbers of 64 bits in 32 where its 64-bit mode is off.
    """
    first = data[0]
    if isinstance(first, tuple):
        if len({len(sample) for sample in data}) > 1:
            got = [len(sample) for sample in data]
            raise ParamError("The samples of a batch have different numbers of parts", got=got)
        return [default_batchify_fn(part) for part in zip(*data, strict=True)]
    shapes = {np.shape(sample): None for sample in data}
    if len(shapes) > 1:
        fix = "Give the loader a batchify_fn= that pads them or collects them in a list."
        raise ParamError("The samples of a batch have different shapes", got=list(shapes), fix=fix)
    if isinstance(first, NDArray):  # in the host's memory: an operator would be compiled for each size of a batch
        return rows_like(first, np.stack([np.asarray(sample) for sample in data]))
    return rows_like(first, np.asarray(data))


default_mp_batchify_fn = default_batchify_fn
"""MXNet's for worker processes, which writes to memory that they share: there are none here."""


def _as_in_context(data: Any, ctx: Context) -> Any:
    """Return a batch with its arrays on a context."""
    if isinstance(data, NDArray):
        return data.as_in_context(ctx)
    return [_as_in_context(part, ctx) for part in data] if isinstance(data, list | tuple) else data


class DataLoader:
    """Batches of the samples of a data set; each iteration over it is one epoch.

    Args:
        dataset: the data set, which has a length and items.
        batch_size: the number of samples in a batch.
        shuffle: use a new random order in each epoch.
        sampler: an iterable of sample numbers, instead of `shuffle`.
        last_batch: what happens to samples that fill no batch: "keep", "discard" or "rollover", as in `BatchSampler`.
        batch_sampler: an iterable of lists of sample numbers, instead of the four arguments before.
        batchify_fn: makes a batch of a list of samples; None for arrays (n, …).
        num_workers: the number of threads that make batches ahead; 0 makes each batch when it is needed.
        pin_memory: arrays are on mx.cpu_pinned(pin_device_id) by name.
        pin_device_id: the number in that name.
        prefetch: the number of batches made ahead; None for 2 for each worker.
        thread_pool: accepted and ignored: workers are threads.
        timeout: how long to wait for a worker's batch, in seconds.
        auto_reload: begin the next epoch when one has ended.

    Raises:
        ParamError: arguments exclude each other; the error is a ValueError, too.
        WorkerTimeoutError: a worker's batch took too long; the error is a TimeoutError, Python's and multiprocessing's.
    """

    @checks_flags
    def __init__(
        self,
        dataset: Sized,
        batch_size: int | None = None,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        last_batch: str | None = None,
        batch_sampler: Iterable[Any] | None = None,
        batchify_fn: Batchify | None = None,
        num_workers: int = 0,
        pin_memory: bool = False,
        pin_device_id: int = 0,
        prefetch: int | None = None,
        thread_pool: bool = False,
        timeout: float = 120,
        auto_reload: bool = False,
    ):
        if timeout <= 0:
            raise MismatchError(f"timeout must be positive, given {timeout}")
        if batch_sampler is not None:
            if batch_size is not None or shuffle or sampler is not None or last_batch is not None:
                raise ParamError(
                    "batch_size, shuffle, sampler and last_batch must not be specified if batch_sampler is specified."
                )
        elif batch_size is None:
            raise ParamError("batch_size must be specified unless batch_sampler is specified")
        elif sampler is not None and shuffle:
            raise ParamError("shuffle must not be specified if sampler is specified")
        else:
            if sampler is None:
                sampler = (RandomSampler if shuffle else SequentialSampler)(len(dataset))
            batch_sampler = BatchSampler(sampler, batch_size, last_batch or "keep")
        self._dataset: Any = dataset
        self._batch_sampler: Any = batch_sampler
        self._batchify_fn = batchify_fn or default_batchify_fn
        self._pin_memory, self._pin_device_id = pin_memory, pin_device_id
        self._num_workers, self._timeout = max(0, num_workers), timeout
        self._prefetch = max(0, 2 * self._num_workers if prefetch is None else int(prefetch))
        self._worker_pool = Workers(self._num_workers, "DataLoader") if self._num_workers else None
        self.auto_reload = auto_reload
        self._iter: Iterator[Any] | None = None
        if auto_reload:
            self.refresh()

    def __len__(self) -> int:
        return len(self._batch_sampler)

    def __iter__(self) -> Iterator[Any]:
        batches = self._prefetch_iter() if self._iter is None else self._iter
        self._iter = None
        yield from batches
        if self._iter is None and self.auto_reload:
            self.refresh()

    def refresh(self) -> None:
        """Begin an epoch now, so that its first batches are made before they are needed."""
        self._iter = self._prefetch_iter()

    def clean(self) -> None:
        """Drop an epoch that `refresh` began."""
        self._iter = None

    def _prefetch_iter(self) -> Iterator[Any]:
        numbers = iter(self._batch_sampler)
        if self._worker_pool is None:
            return map(self._batch, numbers)
        return _Ahead(self, self._worker_pool, numbers)

    def _batch(self, numbers: Sequence[Any]) -> Any:
        """Return the batch of the samples of some numbers."""
        rows = rows_of(self._dataset, numbers) if self._batchify_fn is default_batchify_fn else None
        if rows is None:
            batch = self._batchify_fn([self._dataset[i] for i in numbers])
        else:  # the same, without an array for each sample
            parts = [rows_like(data, part) for data, part in rows]
            batch = parts[0] if len(parts) == 1 else parts
        return _as_in_context(batch, cpu_pinned(self._pin_device_id)) if self._pin_memory else batch


class _Ahead:
    """Iterates over the batches of a loader, whose threads make some ahead."""

    def __init__(self, loader: DataLoader, pool: Workers, numbers: Iterator[Any]):
        self._loader, self._pool, self._numbers = loader, pool, numbers
        self._pending: deque[Future[Any]] = deque()
        for _ in range(loader._prefetch):
            self._push()

    def _push(self) -> None:
        numbers = next(self._numbers, None)
        if numbers is not None:
            self._pending.append(self._pool.submit(in_these_modes(self._loader._batch), numbers))

    def __iter__(self) -> _Ahead:
        return self

    def __next__(self) -> Any:
        self._push()
        if not self._pending:
            raise StopIteration
        pending, timeout = self._pending.popleft(), self._loader._timeout
        if not wait([pending], timeout).done:
            self.close()
            self._pool.give_up()
            problem = f"Worker timed out after {timeout} seconds"
            raise WorkerTimeoutError(
                problem, fix="Raise DataLoader(..., timeout=), or find out why one sample takes so long."
            )
        return pending.result()

    next = __next__

    def close(self) -> None:
        """Make no more batches: what a loop that is left early calls."""
        while self._pending:
            self._pending.pop().cancel()


class _MultiWorkerIter:
    """MXNet's iterator over batches of worker processes, which loaders of libraries derive from: not here."""

    def __init__(self, *_: Any, **__: Any):
        raise ParamError(
            "MXNet's iterator over worker processes is not implemented", fix="Give it num_workers=0, or use DataLoader."
        )
