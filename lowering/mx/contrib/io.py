"""`mx.contrib.io`: batches of any loader as an iterator for modules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from lowering.mx.accepted_types import DType
from lowering.mx.io.desc import DataDesc, DataIter
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array


class DataLoaderIter(DataIter):
    """The batches of a loader, which is anything that gives pairs of arrays, (data, label), each time it is iterated
    over; the first batch decides the shapes. A smaller batch is filled up with zeros. dtype: the dtype of the
    batches."""

    def __init__(
        self,
        loader: Iterable[Any],
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: DType = "float32",
    ):
        super().__init__()
        self._loader = loader
        data, label = next(iter(loader))
        self.batch_size = data.shape[0]
        self.dtype = dtype
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._batch: tuple[Any, Any] | None = None
        self.reset()

    def reset(self) -> None:
        """Begin again at the first batch."""
        self._batches = iter(self._loader)

    def iter_next(self) -> bool:
        """Go on to the next batch; whether there is one."""
        self._batch = next(self._batches, None)
        return self._batch is not None

    def _filled(self, number: int) -> list[NDArray]:
        assert self._batch is not None
        rows = np.asarray(self._batch[number])
        padding = np.zeros((self.getpad(), *rows.shape[1:]), rows.dtype)
        return [array(np.concatenate([rows, padding]) if len(padding) else rows, dtype=self.dtype)]

    def getdata(self) -> list[NDArray]:
        """Return the data of the batch."""
        return self._filled(0)

    def getlabel(self) -> list[NDArray]:
        """Return the labels of the batch."""
        return self._filled(1)

    def getpad(self) -> int:
        """How many samples at its end fill it up."""
        assert self._batch is not None
        return self.batch_size - self._batch[0].shape[0]
