"""`ImageRecordIter`: batches of images from a record file, with MXNet's parameters, for `Trainer.fit`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from lowering.data.draws import Draws, draws_of
from lowering.data.parameters import check_ignored, part_of
from lowering.data.transform import ImageTransform
from lowering.messages.mxnet_words import takes_our_words
from lowering.training.data import Batches
from symjax_nnvm.errors import TrainingError
from symjax_nnvm.io.files import StrPath
from symjax_nnvm.mxnet.params import save_arrays
from symjax_nnvm.mxnet.record_file import RecordFile
from symjax_nnvm.mxnet.record_lists import read_list

Sample = dict[str, np.ndarray]


class ImageRecordIter:
    """Gives batches {data_name: (n, c, h, w), label_name: (n,) or (n, k)} of the images of a record file.

    Parameters have MXNet 1.9.1's names, defaults and meanings: those of images are the fields of
    `lowering.data.Augmentation`, and without random ones a batch is MXNet's, bit for bit (docs/guide/data.md says which
    are not). preprocess_threads threads decode, and prefetch_buffer batches ahead. ctx, device_id, verbose and
    shuffle_chunk_size mean nothing. A mean_img that does not exist is made first, as by MXNet: the mean of what this
    iterator gives of the whole file, for every part.

    As `lowering.Batches`: `for batch in it` runs through epoch 0 and `it.epoch(n)` through any; what comes in epoch n,
    the order, crops and mirrors, depends on the seeds and n alone. Every epoch begins with the part's first image;
    MXNet's goes on behind those that filled the last batch. round_batch=False leaves the last batch short.

    Needs OpenCV (extra `data`). Raises TrainingError, CallError, RecordFormatError, MissingExtraError.
    """

    @takes_our_words(
        "ImageRecordIter",
        "lowering.data.ImageRecordIter(path_imgrec='train.rec', data_shape=(3, 224, 224), batch_size=32)",
    )
    def __init__(
        self,
        path_imgrec: StrPath,
        data_shape: tuple[int, int, int],
        batch_size: int,
        *,
        path_imgidx: StrPath | None = None,
        path_imglist: StrPath | None = None,
        label_width: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        seed_aug: int | None = None,
        shuffle_chunk_seed: int = 0,
        num_parts: int = 1,
        part_index: int = 0,
        round_batch: bool = True,
        preprocess_threads: int = 4,
        prefetch_buffer: int = 4,
        data_name: str = "data",
        label_name: str = "softmax_label",
        **parameters: Any,
    ):
        images = {"data_shape": data_shape, "label_width": label_width, **check_ignored(parameters)}
        images |= {"data_name": data_name, "label_name": label_name}
        mean = images.get("mean_img", "")
        mean_is_missing = bool(mean) and not os.path.lexists(mean)
        self.transform = ImageTransform(**{**images, "mean_img": ""} if mean_is_missing else images)
        if preprocess_threads < 1 or prefetch_buffer < 0:
            got = preprocess_threads, prefetch_buffer
            raise TrainingError("Wrong preprocess_threads or prefetch_buffer", expected="from 1, from 0", got=got)
        file = RecordFile(path_imgrec, path_imgidx or None)
        rows = part_of(len(file), num_parts, part_index)
        self.file = file.select(np.argsort(file.offsets, kind="stable"))
        self._labels = _labels_of_list(path_imglist, label_width) if path_imglist else None
        if not len(rows):
            fix = f"{self.file.path} has {len(file)} records."
            raise TrainingError("There is no image", got=f"part {part_index} of {num_parts}", fix=fix)
        last = "pad" if round_batch else "keep"
        order = seed + (shuffle_chunk_seed << 32)  # one of the two says it all: images are shuffled one by one
        self._numbers = Batches({"number": np.array(rows)}, batch_size, shuffle, order, last)
        self._seed = seed if seed_aug is None else seed_aug
        self._threads, self._ahead = preprocess_threads, prefetch_buffer
        self.batch_size = batch_size
        self.num_rows = len(rows)
        if mean_is_missing:
            save_arrays(mean, {"mean_img": self._mean_image()})
            self.transform = ImageTransform(**images)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._numbers)

    def __iter__(self) -> Iterator[Sample]:
        return self.epoch(0)

    def rows(self, i: int) -> int:
        """Return the number of rows of batch i that are not padding."""
        return self._numbers.rows(i)

    def epoch(self, n: int, start: int = 0) -> Iterator[Sample]:
        """Return the batches of epoch n, from number `start` on."""
        return self._read(self._numbers.epoch(n, start), n)

    def _read(self, numbers: Iterable[Sample], n: int) -> Iterator[Sample]:
        waiting: deque[list[Future[Sample]]] = deque()
        with ThreadPoolExecutor(self._threads, "ImageRecordIter") as pool:
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
        """The mean of all images of the file, as they come in epoch 0: added up in MXNet's order, one by one."""
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
                fix = f"The image's number is {header.id}: a line of path_imglist begins with it."
                raise TrainingError(f"Record {number} of {self.file.path} has no label", fix=fix)
            header = header._replace(flag=self.transform.label_width, label=self._labels[header.id])
        draws: Draws | None = draws_of(self._seed, epoch, number) if self.transform.random else None
        return self.transform.sample(header, data, draws, f"Record {number} of {self.file.path}")


def _batch(samples: list[Future[Sample]]) -> Sample:
    done = [sample.result() for sample in samples]
    return {name: np.stack([sample[name] for sample in done]) for name in done[0]}


def _labels_of_list(path: StrPath, width: int) -> dict[int, float | np.ndarray]:
    """Labels by the numbers of images. Raises TrainingError, RecordFormatError."""
    labels: dict[int, float | np.ndarray] = {}
    for row in read_list(path):
        if len(row.labels) < width:
            got = f"{len(row.labels)} of image {row.id} in {os.fspath(path)}"
            raise TrainingError("Too few labels", param="label_width", expected=f"{width} labels", got=got)
        labels[row.id] = row.labels[0] if width == 1 else np.array(row.labels[:width], np.float32)
    return labels
