"""EpochsIter: MXNet's iterator over what the trainer takes, batches by name and epoch, such as `lowering.Batches`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from lowering.mx.io.desc import DataBatch, DataDesc, DataIter, MXDataIter
from lowering.mx.ndarray.array import NDArray, stored_as
from lowering.mx.ndarray.creation import array


class Epochs(Protocol):
    """Batches of an epoch, {name: array}, and how many rows of each are not there to fill it up."""

    batch_size: int

    def epoch(self, n: int) -> Iterator[Mapping[str, Any]]:
        """Return the batches of an epoch."""
        ...

    def rows(self, i: int) -> int:
        """How many rows of batch i count."""
        ...


class EpochsIter(DataIter):
    """The epochs of a source, one after the other; a reset begins the next.

    labels: which names are labels, by default those that end in "label". storage: what arrays are shown as, by name,
    where they are sparse.
    """

    def __init__(self, source: Epochs, labels: Collection[str] | None = None, storage: Mapping[str, str] | None = None):
        super().__init__(source.batch_size)
        self._storage = storage or {}
        self._source, self._epoch = source, 0
        self._begin()
        self._first = next(self._batches, None)
        described = {name: (np.shape(value), np.asarray(value).dtype) for name, value in (self._first or {}).items()}
        self._labels = [name for name in described if (name.endswith("label") if labels is None else name in labels)]
        rows = [DataDesc(name, shape, dtype.type) for name, (shape, dtype) in described.items()]
        self.provide_data = [desc for desc in rows if desc.name not in self._labels]
        self.provide_label = [desc for desc in rows if desc.name in self._labels]

    def _begin(self) -> None:
        self._batches = iter(self._source.epoch(self._epoch))
        self._first: Mapping[str, Any] | None = None
        self._number = 0

    def reset(self) -> None:
        """Go on to the next epoch, unless nothing of this one was taken."""
        if self._number:
            self._epoch += 1
            self._begin()

    def next(self) -> DataBatch:
        """Return the next batch. Raises StopIteration at the end of the epoch."""
        batch = next(self._batches) if self._first is None else self._first
        self._first = None
        self._number += 1
        return self._as_batch(batch, self._number - 1)

    def _as_batch(self, batch: Mapping[str, Any], number: int) -> DataBatch:
        pad = self.batch_size - self._source.rows(number)
        return DataBatch(self._arrays(batch, self.provide_data), self._arrays(batch, self.provide_label), pad)

    def _arrays(self, batch: Mapping[str, Any], described: list[DataDesc]) -> list[NDArray]:
        arrays = {desc.name: array(batch[desc.name], dtype=desc.dtype) for desc in described}
        return [stored_as(dense, self._storage.get(name, "default")) for name, dense in arrays.items()]


class FileIter(EpochsIter, MXDataIter):
    """The epochs of a source that reads files. `getdata` and its kin give the batch that was read last, before the
    first is taken that one."""

    _batch: DataBatch | None = None

    def next(self) -> DataBatch:
        """Return the next batch. Raises StopIteration at the end of the epoch."""
        self._batch = super().next()
        return self._batch

    def iter_next(self) -> bool:
        """Go on to the next batch; whether there is one."""
        try:
            self.next()
        except StopIteration:
            return False
        return True

    def _last(self) -> DataBatch:
        """Return the batch that was read last. Raises StopIteration for a source without any."""
        if self._batch is not None:
            return self._batch
        if self._first is None:
            raise StopIteration
        return self._as_batch(self._first, 0)

    def getdata(self) -> NDArray:
        """Return the data of the batch."""
        return self._last().data[0]

    def getlabel(self) -> NDArray:
        """Return the labels of the batch."""
        return self._last().label[0]  # pyright: ignore[reportOptionalSubscript]

    def getpad(self) -> int:
        """How many samples at its end fill it up."""
        return self._last().pad or 0
