"""ImageIter: batches of images from files, lists of files or record files, augmented on the way."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np

from lowering.jax_casts import held
from lowering.messages.counts import check_count, check_counts, checks_flags
from lowering.mx.image.augmenters import CreateAugmenter
from lowering.mx.image.pixels import imdecode
from lowering.mx.io.desc import DataBatch, DataIter
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array
from lowering.mx.recordio import MXIndexedRecordIO, MXRecordIO, unpack
from symjax_nnvm.errors import CallError, NNVMError, ParamError, RecordFormatError
from symjax_nnvm.io.files import bounded_lines, open_regular, path_text, read_bounded
from symjax_nnvm.io.guess import require_file

__all__ = ["ImageIter"]

_MAX_FILE = 1 << 30
_LONGEST_LINE = 1 << 20
_LABELS = ("int32", "float32", "int64", "float64")
_LAST = ("pad", "discard", "roll_over")

Batch = tuple[np.ndarray, np.ndarray]
"""Images and labels, in the host's memory until all are there."""


class BrokenImageError(NNVMError, RuntimeError):
    """An image of an iterator that cannot be decoded, or that its augmenters cannot take."""


class ImageIter(DataIter):
    """Batches of images (n, 3, height, width) and labels (n,) or (n, label_width), float32.

    It needs one source: `path_imgrec`, `path_imglist` or `imglist`. With a record file, a list has the labels.

    Args:
        batch_size: the number of images in a batch.
        data_shape: (3, height, width).
        label_width: the number of labels of an image.
        path_imgrec: a record file.
        path_imglist: a file with lines of a number, labels and a path, separated by tabs.
        path_root: the folder of these paths.
        path_imgidx: the index of the record file, where images are shuffled or in parts.
        shuffle: use another order in every epoch, drawn by Python's `random`.
        part_index: the number of the part to read.
        num_parts: the number of parts of the images.
        aug_list: augmenters; None for those of `mx.image.CreateAugmenter(data_shape, **kwargs)`.
        imglist: a list of [label or labels, path].
        data_name: the name of the data.
        label_name: the name of the labels.
        dtype: the dtype of the labels that are read.
        last_batch_handle: what happens to a last batch that is not full: "pad" fills it from the start, "discard"
            leaves it out, "roll_over" puts its images into the next epoch.
        kwargs: arguments of `mx.image.CreateAugmenter`.

    Raises:
        CallError: an argument has the wrong type, or there is no source.
        ParamError: an argument has a wrong value.
        CountError: a number is not a whole number in its range.
        RecordFormatError: the record file, its index or the list is malformed.
        FileError: a path is not a regular file.
        OSError: a file cannot be read.
        BrokenImageError: an image cannot be decoded; the message names it. The error is a RuntimeError, too.
    """

    @checks_flags
    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, ...],
        label_width: int = 1,
        path_imgrec: str | None = None,
        path_imglist: str | None = None,
        path_root: str | None = None,
        path_imgidx: str | None = None,
        shuffle: bool = False,
        part_index: int = 0,
        num_parts: int = 1,
        aug_list: Sequence[Any] | None = None,
        imglist: list[Any] | None = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ):
        super().__init__(check_count(batch_size, "batch_size"))
        if not (path_imgrec or path_imglist or isinstance(imglist, list)):
            raise CallError("ImageIter needs a source of images", expected="path_imgrec=, path_imglist= or imglist=")
        if dtype not in _LABELS:
            raise CallError(f"{dtype} label not supported", expected=", ".join(_LABELS), got=repr(dtype))
        if last_batch_handle not in _LAST:
            raise CallError("No such last_batch_handle", expected=f"one of {_LAST}", got=repr(last_batch_handle))
        self.check_data_shape(data_shape)
        check_counts(data_shape, "data_shape")
        check_count(label_width, "label_width")
        check_count(num_parts, "num_parts")
        self.imgrec: MXRecordIO | None = None
        self.imgidx: list[Any] | None = None
        if path_imgrec and path_imgidx:
            self.imgrec = MXIndexedRecordIO(
                path_text(path_imgidx, "path_imgidx"), path_text(path_imgrec, "path_imgrec"), "r"
            )
            self.imgidx = list(self.imgrec.keys)
        elif path_imgrec:
            self.imgrec = MXRecordIO(path_text(path_imgrec, "path_imgrec"), "r")
        self.imglist: dict[Any, tuple[np.ndarray, str]] | None = None
        if path_imglist:
            self.imglist = _listed_in_file(path_text(path_imglist, "path_imglist"), dtype)
        elif isinstance(imglist, list):
            self.imglist = _listed(imglist, dtype)
        self.path_root = None if path_root is None else path_text(path_root, "path_root")
        self.provide_data: list[Any] = [(data_name, (batch_size, *data_shape))]
        labels = (batch_size, label_width) if label_width > 1 else (batch_size,)
        self.provide_label: list[Any] = [(label_name, labels)]
        self.data_shape, self.label_width, self.shuffle = data_shape, label_width, shuffle
        self.seq = self._sequence(shuffle, num_parts, part_index)
        self.auglist: list[Any] = CreateAugmenter(data_shape, **kwargs) if aug_list is None else list(aug_list)
        self.cur = 0
        self.last_batch_handle = last_batch_handle
        self.num_image = None if self.seq is None else len(self.seq)
        self._at_end = False
        self._rolled: tuple[Batch, int] | None = None
        self.reset()

    def _sequence(self, shuffle: bool, num_parts: int, part_index: int) -> list[Any] | None:
        """Return the numbers of the images; None for records that come one after the other."""
        if self.imgrec is None:
            keys = list(self.imglist or ())
        elif self.imgidx is not None:
            keys = self.imgidx
        elif shuffle or num_parts > 1:
            raise CallError("Shuffling records, or reading a part of them, needs an index", expected="path_imgidx=")
        else:
            return None
        if num_parts > 1:
            if not 0 <= part_index < num_parts:
                raise CallError("No such part", expected=f"part_index from 0 to {num_parts - 1}", got=part_index)
            count = len(keys) // num_parts
            keys = keys[part_index * count : (part_index + 1) * count]
        return keys

    # -- epochs --------------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Begin the next epoch; images that roll over come first."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        if self.last_batch_handle != "roll_over" or self._rolled is None:
            self._rewind()

    def hard_reset(self) -> None:
        """Begin the next epoch; nothing rolls over."""
        self._rolled = None
        self.reset()

    def _rewind(self) -> None:
        if self.imgrec is not None:
            self.imgrec.reset()
        self.cur, self._at_end = 0, False

    def next(self) -> DataBatch:
        """Return the next batch; at the end of the epoch it raises StopIteration."""
        (data, label), count = self._rolled or (self._empty(), 0)
        again = self._rolled is not None
        if not again:
            count = self._batchify(data, label)
        pad = self.batch_size - count
        if pad and self.last_batch_handle == "discard":
            raise StopIteration
        if pad and self.last_batch_handle == "roll_over" and not again:
            self._rolled = (data, label), count
            raise StopIteration
        if pad:
            self._batchify(data, label, count)
            self._rolled, self._at_end = None, self.last_batch_handle == "pad"
        return DataBatch([array(data)], [array(label)], pad=pad)

    def _empty(self) -> Batch:
        """Return where the images and labels of a batch are put."""
        shape = self.batch_size, *self.data_shape
        return np.zeros(shape, np.float32), np.zeros(self.provide_label[0][1], np.float32)

    def _batchify(self, batch_data: np.ndarray, batch_label: np.ndarray, start: int = 0) -> int:
        """Put samples into a batch from number `start` on, until it is full or the epoch ends; how many are in it."""
        count = start
        try:
            while count < self.batch_size:
                sample = self._sample(*self.next_sample())
                if sample is not None:
                    self._put(*sample, batch_data, batch_label, count)
                    count += 1
        except StopIteration:
            if not count:
                raise
        return count

    def _sample(self, label: Any, encoded: bytes) -> tuple[Any, Any] | None:
        """Return an image after all augmenters and its label; None for what is no image."""
        data = self.imdecode(encoded)
        try:
            self.check_valid_image([data])
        except RuntimeError as error:
            logging.debug("Invalid image, skipping:  %s", error)
            return None
        return self.augmentation_transform(data), label

    def _put(self, data: Any, label: Any, batch_data: np.ndarray, batch_label: np.ndarray, number: int) -> None:
        batch_data[number] = np.asarray(self.postprocess_data(data))
        batch_label[number] = np.asarray(label).reshape(batch_label[number].shape)

    # -- one sample ----------------------------------------------------------------------------------------------------

    def next_sample(self) -> tuple[Any, bytes]:
        """Return the label of the next image and its file's bytes; at the end of the epoch it raises StopIteration.

        The label is an NDArray in a list; in a record it is a number, or an array in NumPy's memory.
        """
        if self._at_end:
            raise StopIteration
        if self.seq is None:
            assert self.imgrec is not None
            record = self.imgrec.read()
            if record is None:
                if self.last_batch_handle != "discard":
                    self.imgrec.reset()
                raise StopIteration
            header, encoded = unpack(record)
            return header.label, encoded
        if self.cur >= len(self.seq):
            if self.last_batch_handle != "discard":
                self.cur = 0
            raise StopIteration
        key = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is None:
            assert self.imglist is not None
            label, path = self.imglist[key]
            return _as_label(label), self.read_image(path)
        assert isinstance(self.imgrec, MXIndexedRecordIO)
        header, encoded = unpack(self.imgrec.read_idx(key) or b"")
        return header.label if self.imglist is None else _as_label(self.imglist[key][0]), encoded

    def read_image(self, fname: str) -> bytes:
        """Return the bytes of a file below path_root."""
        return read_bounded(os.path.join(self.path_root or "", fname), _MAX_FILE, "an image", RecordFormatError)

    def imdecode(self, s: bytes) -> NDArray:
        """Return the image in a file's bytes; if it cannot be decoded, it raises BrokenImageError, with the image's
        name."""
        try:
            return imdecode(s)
        except RecordFormatError as error:
            key = self.cur if self.seq is None else self.seq[self.cur - 1]
            where = f"filename: {self.imglist[key][1]}" if self.seq and self.imglist else f"index: {key}"
            raise BrokenImageError(f"Broken image {where}, {error}") from error

    def augmentation_transform(self, data: Any) -> Any:
        """Return the image after all augmenters."""
        for augmenter in self.auglist:
            data = augmenter(data)
        return data

    def postprocess_data(self, datum: Any) -> Any:
        """Return an image (h, w, c) as (c, h, w)."""
        return np.asarray(datum).transpose(2, 0, 1)

    # -- checks --------------------------------------------------------------------------------------------------------

    def check_data_shape(self, data_shape: Sequence[int]) -> None:
        """Raise ParamError, a ValueError, unless it is (3, height, width)."""
        if len(data_shape) != 3:
            raise ParamError("data_shape should have length 3, with dimensions CxHxW", got=data_shape)
        if data_shape[0] != 3:
            raise ParamError("This iterator expects inputs to have 3 channels.", got=data_shape)

    def check_valid_image(self, data: Sequence[Any]) -> None:
        """Raise BrokenImageError, a RuntimeError, for a list of anything that is not an image."""
        if len(data[0].shape) == 0:
            raise BrokenImageError("Data shape is wrong")


def _as_label(numbers: np.ndarray) -> NDArray:
    """Return a label as MXNet's iterators hand it on; JAX narrows 64 bits, without a warning for each image."""
    numbers = held(numbers)
    return array(numbers, dtype=numbers.dtype)


def _listed_in_file(path: str, dtype: str) -> dict[Any, tuple[np.ndarray, str]]:
    """Return (labels, path) by number, of a list's lines. Raises RecordFormatError, FileError, OSError."""
    images: dict[Any, tuple[np.ndarray, str]] = {}
    require_file(path)
    with open_regular(path) as file:
        for number, line in enumerate(bounded_lines(file, _LONGEST_LINE, RecordFormatError), 1):
            fields = line.decode("utf-8", "surrogateescape").strip().split("\t")
            try:
                labels = np.array([float(field) for field in fields[1:-1]]).astype(dtype)
                images[int(fields[0])] = labels, fields[-1]
            except ValueError:
                raise RecordFormatError(
                    f"{path}: line {number} is not a line of an image list",
                    expected="a whole number, one or more numbers as labels, and a path, with tabs between",
                    got=repr(line[:200]),
                ) from None
    return images


def _listed(rows: Sequence[Any], dtype: str) -> dict[Any, tuple[np.ndarray, str]]:
    """Return (labels, path) by number as text, from 1 on, of rows [label or labels, path] or [label, label, …,
    path]."""
    images: dict[Any, tuple[np.ndarray, str]] = {}
    for number, row in enumerate(rows, 1):
        labels = row[:-1] if len(row) > 2 or isinstance(row[0], Number) else row[0]
        images[str(number)] = np.asarray(labels).astype(dtype), row[-1]
    return images
