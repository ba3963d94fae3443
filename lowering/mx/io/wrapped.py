"""Iterators over iterators: of another length, and made ready in a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from lowering.mx.io.desc import DataBatch, DataDesc, DataIter, as_desc
from symjax_nnvm.errors import CallError


class ResizeIter(DataIter):
    """`size` batches an epoch, however many the iterator has; it begins anew where it ends before.

    reset_internal: whether a reset resets the iterator, too.
    """

    def __init__(self, data_iter: DataIter, size: int, reset_internal: bool = True):
        super().__init__(data_iter.batch_size)
        self.data_iter, self.size, self.reset_internal = data_iter, size, reset_internal
        self.provide_data, self.provide_label = data_iter.provide_data, data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key  # pyright: ignore[reportAttributeAccessIssue]
        self.cur = 0

    def reset(self) -> None:
        """Begin anew."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def next(self) -> DataBatch:
        """The next batch. Raises StopIteration after `size` of them."""
        if self.cur == self.size:
            raise StopIteration
        self.cur += 1
        try:
            return self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            return self.data_iter.next()


class PrefetchingIter(DataIter):
    """Batches of one iterator, or of several side by side, the next one made ready by a thread meanwhile.

    rename_data, rename_label: for each iterator, other names by name.
    """

    def __init__(
        self,
        iters: DataIter | Sequence[DataIter],
        rename_data: Sequence[Mapping[str, str]] | None = None,
        rename_label: Sequence[Mapping[str, str]] | None = None,
    ):
        self.iters = [iters] if isinstance(iters, DataIter) else list(iters)
        if not self.iters:
            raise CallError("PrefetchingIter needs an iterator", got="none", fix="mx.io.PrefetchingIter(data_iter)")
        self._renamed = rename_data, rename_label
        super().__init__(self.provide_data[0].shape[0])
        self._pool = ThreadPoolExecutor(1)
        self._next = self._pool.submit(self._make)

    def _described(self, what: int) -> list[DataDesc]:
        names = self._renamed[what] or [{}] * len(self.iters)
        descs = []
        for source, renamed in zip(self.iters, names, strict=True):
            descs += [
                DataDesc(renamed.get(desc.name, desc.name), desc.shape, desc.dtype, desc.layout)
                for desc in map(as_desc, source.provide_label if what else source.provide_data)
            ]
        return descs

    @property
    def provide_data(self) -> list[DataDesc]:
        """The names, shapes and dtypes of a batch's data."""
        return self._described(0)

    @property
    def provide_label(self) -> list[DataDesc]:
        """The descriptions of the labels."""
        return self._described(1)

    def _make(self) -> list[DataBatch] | None:
        """A batch of each iterator; None at the end."""
        try:
            return [source.next() for source in self.iters]
        except StopIteration:
            return None

    def reset(self) -> None:
        """Begin anew."""
        wait([self._next])
        for source in self.iters:
            source.reset()
        self._next = self._pool.submit(self._make)

    def next(self) -> DataBatch:
        """The next batch. Raises StopIteration at the end, and what the iterators raise."""
        fetched = self._next.result()
        if fetched is None:
            raise StopIteration
        self._next = self._pool.submit(self._make)
        data = [array for batch in fetched for array in batch.data]
        label = [array for batch in fetched for array in batch.label or ()]
        first = fetched[0]
        return DataBatch(data, label, first.pad, first.index, first.bucket_key, self.provide_data, self.provide_label)
