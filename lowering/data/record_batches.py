"""`RecordBatches`: what the iterators over record files share: parts, order, epochs, threads and the mean image."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from lowering.data.augmenter_parameters import part_of
from lowering.data.stable_draws import Draws, draws_of
from lowering.training.data import Batches
from symjax_nnvm.errors import TrainingError
from symjax_nnvm.io.files import StrPath
from symjax_nnvm.mxnet.params_files import save_arrays
from symjax_nnvm.mxnet.record_file import RecordFile
from symjax_nnvm.mxnet.record_format import IRHeader
from symjax_nnvm.mxnet.record_lists import read_list

Sample = dict[str, np.ndarray]


class Transform(Protocol):
    """Makes the sample of a record."""

    data_name: str

    @property
    def random(self) -> bool:
        """Return whether it draws random numbers."""
        ...

    @property
    def parameters(self) -> Any:
        """Return its parameters, data_shape among them."""
        ...

    def sample(self, header: IRHeader, data: bytes, draws: Draws | None, where: str) -> Sample:
        """Return the sample of a record. where: the record's name in errors."""
        ...


class RecordBatches:
    """Gives batches of the samples of a record file, epoch by epoch, read and transformed by threads.

    make: mean image, a path or "" → the transform. labels: by the numbers of images, in place of the records' own.
    Raises TrainingError.
    """

    def __init__(
        self,
        file: RecordFile,
        make: Callable[[StrPath], Transform],
        labels: Mapping[int, float | np.ndarray] | None,
        batch_size: int,
        *,
        mean_img: StrPath,
        shuffle: bool,
        seed: int,
        seed_aug: int | None,
        shuffle_chunk_seed: int,
        num_parts: int,
        part_index: int,
        round_batch: bool,
        preprocess_threads: int,
        prefetch_buffer: int,
    ):
        if preprocess_threads < 1 or prefetch_buffer < 0:
            got = preprocess_threads, prefetch_buffer
            raise TrainingError(
                "preprocess_threads or prefetch_buffer is out of range",
                expected="at least 1 thread, and a buffer of 0 or more",
                got=got,
            )
        self.file, self._labels = file, labels
        rows = self._part(num_parts, part_index)
        if not len(rows):
            fix = f"{file.path} has {len(file)} records."
            raise TrainingError("There are no images in this part", got=f"part {part_index} of {num_parts}", fix=fix)
        mean_is_missing = bool(mean_img) and not os.path.lexists(mean_img)
        self.transform = make("" if mean_is_missing else mean_img)
        last = "pad" if round_batch else "keep"
        order = seed + (shuffle_chunk_seed << 32)  # one seed is enough: images are shuffled one by one
        self._numbers = Batches({"number": np.array(rows)}, batch_size, shuffle, order, last)
        self._seed = seed if seed_aug is None else seed_aug
        self._threads, self._ahead = preprocess_threads, prefetch_buffer
        self.batch_size = batch_size
        self.num_rows = len(rows)
        if mean_is_missing:
            save_arrays(mean_img, {"mean_img": self._mean_image()})
            self.transform = make(mean_img)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self._numbers)

    def __iter__(self) -> Iterator[Sample]:
        return self.epoch(0)

    def _part(self, num_parts: int, part_index: int) -> Sequence[int]:
        """Return the records of one part of several."""
        return part_of(len(self.file), num_parts, part_index)

    def rows(self, i: int) -> int:
        """Return the number of rows of batch i that are not padding."""
        return self._numbers.rows(i)

    def epoch(self, n: int, start: int = 0) -> Iterator[Sample]:
        """Return the batches of epoch n, from number `start` on."""
        return self._read(self._numbers.epoch(n, start), n)

    def _read(self, numbers: Iterable[Sample], n: int) -> Iterator[Sample]:
        waiting: deque[list[Future[Sample]]] = deque()
        with ThreadPoolExecutor(self._threads, type(self).__name__) as pool:
            try:
                for chosen in numbers:
                    waiting.append([pool.submit(self._sample, int(number), n) for number in chosen["number"]])
                    if len(waiting) > self._ahead:
                        yield _batch(waiting.popleft())
                while waiting:
                    yield _batch(waiting.popleft())
            finally:  # a loop that ends before its epoch does not wait for images that it will not read
                for sample in (future for batch in waiting for future in batch):
                    sample.cancel()

    def _mean_image(self) -> np.ndarray:
        """Return the mean of all images of the file, as they come in epoch 0: added up in MXNet's order, one by one."""
        whole = Batches({"number": np.arange(len(self.file))}, self.batch_size, last="keep")
        total = np.zeros(self.transform.parameters.data_shape, np.float32)
        for batch in self._read(whole.epoch(0), 0):
            for image in batch[self.transform.data_name]:
                total += image
        return total * (np.float32(1) / np.float32(len(self.file)))

    def _sample(self, number: int, epoch: int) -> Sample:
        header, data = self.file.unpack(number)
        if self._labels is not None:
            if header.id not in self._labels:
                fix = f"Add a line to path_imglist that begins with the image's number, {header.id}."
                raise TrainingError(f"Record {number} of {self.file.path} has no label", fix=fix)
            header = header._replace(label=self._labels[header.id])
        draws: Draws | None = draws_of(self._seed, epoch, number) if self.transform.random else None
        return self.transform.sample(header, data, draws, f"Record {number} of {self.file.path}")


def _batch(samples: list[Future[Sample]]) -> Sample:
    done = [sample.result() for sample in samples]
    return {name: np.stack([sample[name] for sample in done]) for name in done[0]}


def records_of(path: StrPath, index: StrPath | None = None) -> RecordFile:
    """Return all records of a file, in the file's order, or those of an index that is given.

    Raises RecordFormatError, FileError, OSError.
    """
    file = RecordFile(path, index or None, whole=True)
    return file.select(np.argsort(file.offsets, kind="stable"))


def labels_of_list(path: StrPath, width: int) -> dict[int, float | np.ndarray]:
    """Return labels by the numbers of images: the first `width` of each line, or all, by a width of -1.

    Raises TrainingError, RecordFormatError.
    """
    labels: dict[int, float | np.ndarray] = {}
    for row in read_list(path):
        if len(row.labels) < width:
            got = f"{len(row.labels)} of image {row.id} in {os.fspath(path)}"
            raise TrainingError("There are too few labels", param="label_width", expected=f"{width} labels", got=got)
        chosen = row.labels if width < 0 else row.labels[:width]
        labels[row.id] = chosen[0] if width == 1 else np.array(chosen, np.float32)
    return labels
