"""MNISTIter: batches of the images and labels in MNIST's files."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from lowering.data.augmenter_parameters import check_part
from lowering.data.idx_files import read_idx
from lowering.messages.counts import check_count, checks_flags
from lowering.mx.accepted_types import DType
from lowering.mx.io.desc import DataBatch, DataDesc, MXDataIter
from lowering.mx.ndarray.creation import array
from symjax_nnvm.errors import TrainingError
from symjax_nnvm.io.files import StrPath, path_text

_LOG = logging.getLogger(__name__)
"""Its own logger: `logging.info` would set up the root logger before a script does."""


class MNISTIter(MXDataIter):
    """Batches of MNIST's images (n, 1, height, width) with values from 0 to 255 / 256, and labels (n,).

    A last batch that is not full is left out.

    Args:
        image: the idx file of the images, plain or packed by gzip (`.gz`).
        label: the idx file of the labels.
        batch_size: the number of samples in a batch.
        shuffle: use a random order, the same in every epoch; MXNet's is another one.
        flat: batches (n, height · width).
        seed: the seed of the order.
        silent: do not print what was read.
        num_parts: the number of parts of the images.
        part_index: the number of the part to read.
        prefetch_buffer: accepted and ignored.
        ctx: accepted and ignored.
        dtype: the dtype of data and labels; None for float32.
        data_name: the name of the data.
        label_name: the name of the labels.
        input_shape: accepted and ignored.
        _: further keywords of MXNet's, ignored.

    Raises:
        TrainingError: a file is none of MNIST's.
        ModelNotFoundError: there is no such file.
        FileError: a path is not a regular file.
        OSError: a file cannot be read.
    """

    @checks_flags
    def __init__(
        self,
        image: StrPath = "./train-images-idx3-ubyte",
        label: StrPath = "./train-labels-idx1-ubyte",
        batch_size: int = 128,
        shuffle: bool = True,
        flat: bool = False,
        seed: int = 0,
        silent: bool = False,
        num_parts: int = 1,
        part_index: int = 0,
        prefetch_buffer: int = 4,
        ctx: str = "gpu",
        dtype: DType = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        input_shape: Any = None,
        **_: Any,
    ):
        super().__init__(check_count(batch_size, "batch_size"))
        images, labels = read_idx(path_text(image, "image"), 3), read_idx(path_text(label, "label"), 1)
        if len(images) != len(labels):
            raise TrainingError("The labels do not fit the images", expected=f"{len(images)}", got=len(labels))
        check_part(num_parts, part_index)
        begin, end = (len(images) * part // num_parts for part in (part_index, part_index + 1))
        rows = np.arange(begin, end)
        if shuffle:
            rows = rows[np.random.RandomState(seed % (1 << 32)).permutation(len(rows))]
        self._images = images.reshape(len(images), -1) if flat else images[:, None]
        self._labels, self._rows = labels, rows
        self._dtype = np.dtype(np.float32 if dtype is None else dtype)
        shape = (batch_size, *self._images.shape[1:])
        self.provide_data = [DataDesc(data_name, shape, self._dtype.type)]
        self.provide_label = [DataDesc(label_name, (batch_size,), self._dtype.type)]
        self._next = 0
        if not silent:
            _LOG.info("MNISTIter: load %d images, shuffle=%d, shape=%s", len(rows), shuffle, shape)

    def reset(self) -> None:
        """Begin again at the first batch."""
        self._next = 0

    def next(self) -> DataBatch:
        """Return the next batch; where no full one is left it raises StopIteration."""
        rows = self._rows[self._next : self._next + self.batch_size]
        if len(rows) < self.batch_size:
            raise StopIteration
        self._next += self.batch_size
        values = self._images[rows] * np.float32(1 / 256)
        data, label = (array(part.astype(self._dtype), dtype=self._dtype) for part in (values, self._labels[rows]))
        return DataBatch([data], [label], 0, np.zeros(self.batch_size, np.uint64))
