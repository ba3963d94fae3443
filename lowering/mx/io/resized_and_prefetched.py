"""Iterators over iterators: of another length, and made ready in a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from typing import Any

from lowering.messages.counts import check_count, checks_flags
from lowering.mx.io.desc import DataBatch, DataDesc, DataIter, as_desc
from lowering.mx.io.workers import Workers
from symjax_nnvm.errors import CallError


class _WholeBatches(DataIter):
    """An iterator of batches that others made. current_batch: the latest; before the first None, or a list of it."""

    current_batch: Any = None

    def _make_next(self) -> DataBatch:
        raise NotImplementedError

    def iter_next(self) -> bool:
        """Go on to the next batch, and return whether there is one."""
        try:
            self.current_batch = self._make_next()
        except StopIteration:
            return False
        return True

    def next(self) -> DataBatch:
        """Return the next batch. Raises StopIteration at the end, and what the iterators raise."""
        if not self.iter_next():
            raise StopIteration
        return self.current_batch

    def getdata(self) -> Any:
        """Return the data of the batch."""
        return self.current_batch.data

    def getlabel(self) -> Any:
        """Return the labels of the batch."""
        return self.current_batch.label

    def getpad(self) -> Any:
        """Return how many samples at its end fill it up."""
        return self.current_batch.pad

    def getindex(self) -> Any:
        """Return the numbers of its samples."""
        return self.current_batch.index


class ResizeIter(_WholeBatches):
    """Epochs of a fixed number of batches; the other iterator starts again where it ends.

    Args:
        data_iter: the other iterator.
        size: the number of batches in an epoch.
        reset_internal: let `reset` reset the other iterator, too.

    Raises:
        CountError: `size` is not a whole number from 0 on; the error is a ValueError, too.
    """

    @checks_flags
    def __init__(self, data_iter: DataIter, size: int, reset_internal: bool = True):
        super().__init__(data_iter.batch_size)
        self.data_iter, self.size, self.reset_internal = data_iter, check_count(size, "size", 0), reset_internal
        self.provide_data, self.provide_label = data_iter.provide_data, data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key  # pyright: ignore[reportAttributeAccessIssue]
        self.cur = 0

    def reset(self) -> None:
        """Begin again at the first batch."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def _make_next(self) -> DataBatch:
        if self.cur == self.size:
            raise StopIteration
        self.cur += 1
        try:
            return self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            return self.data_iter.next()


class PrefetchingIter(_WholeBatches):
    """Batches of one iterator, or of several side by side; a thread prepares the next one.

    Args:
        iters: an iterator or a list of iterators.
        rename_data: for each iterator, new names of its data by old names.
        rename_label: the same for labels.
    """

    @checks_flags
    def __init__(
        self,
        iters: DataIter | Sequence[DataIter],
        rename_data: Sequence[Mapping[str, str]] | None = None,
        rename_label: Sequence[Mapping[str, str]] | None = None,
    ):
        self.iters = [iters] if isinstance(iters, DataIter) else list(iters)
        if not self.iters:
            raise CallError("PrefetchingIter needs an iterator", got="none", fix="mx.io.PrefetchingIter(data_iter)")
        self.n_iter, self.started = len(self.iters), True
        self.rename_data, self.rename_label = rename_data, rename_label
        self.current_batch = [None] * self.n_iter
        super().__init__(self.provide_data[0].shape[0])
        self._pool = Workers(1, "PrefetchingIter")
        self._next = self._pool.submit(self._make)

    def _described(self, what: int) -> list[DataDesc]:
        names = (self.rename_label if what else self.rename_data) or [{}] * self.n_iter
        descs = []
        for source, renamed in zip(self.iters, names, strict=True):
            descs += [
                DataDesc(renamed.get(desc.name, desc.name), desc.shape, desc.dtype, desc.layout)
                for desc in map(as_desc, source.provide_label if what else source.provide_data)
            ]
        return descs

    @property
    def provide_data(self) -> list[DataDesc]:
        """Return the names, shapes and dtypes of a batch's data."""
        return self._described(0)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Return the names, shapes and dtypes of a batch's labels."""
        return self._described(1)

    def _make(self) -> list[DataBatch] | None:
        """Return a batch of each iterator; None at the end."""
        try:
            return [source.next() for source in self.iters]
        except StopIteration:
            return None

    def reset(self) -> None:
        """Begin again at the first batch."""
        wait([self._next])
        for source in self.iters:
            source.reset()
        self._next = self._pool.submit(self._make)

    def _make_next(self) -> DataBatch:
        fetched = self._next.result()
        if fetched is None:
            raise StopIteration
        self._next = self._pool.submit(self._make)
        data = [array for batch in fetched for array in batch.data]
        label = [array for batch in fetched for array in batch.label or ()]
        first = fetched[0]
        return DataBatch(data, label, first.pad, first.index, first.bucket_key, self.provide_data, self.provide_label)
