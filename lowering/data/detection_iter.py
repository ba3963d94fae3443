"""`ImageDetRecordIter`: batches of images and of the boxes in them from a record file, with MXNet's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lowering.data.augmenter_parameters import check_ignored, check_part
from lowering.data.box_augmenter import augment_detection, detection_augmentation
from lowering.data.boxes import detection_label
from lowering.data.record_batches import RecordBatches, labels_of_list, records_of
from lowering.data.stable_draws import Draws, draws_of
from lowering.data.transform import mean_image, planes_of
from lowering.messages.migration_hints import with_migration_hints
from symjax_nnvm.errors import TrainingError
from symjax_nnvm.io.files import StrPath
from symjax_nnvm.mxnet.images import decode_bgr
from symjax_nnvm.mxnet.record_file import RecordFile
from symjax_nnvm.mxnet.record_format import IRHeader

_SIZES = 4
"""Numbers before a label: channels, rows and columns of the image, and the label's length."""


class ImageDetRecordIter(RecordBatches):
    """Gives batches {data_name: (n, c, h, w), label_name: (n, 4 + width)}, float32, of images with boxes from a record
    file.

    A label is the image's channels, rows and columns, the label's length, the label, and then label_pad_value up to the
    width: label_pad_width, or else the longest label's of the file or the list, for every part (MXNet: of the part). A
    record's label, or the one of a list, is [header's width, object's width, …, then of each object its class, left,
    top, right, bottom, …], with boxes relative to the image.

    Parameters have MXNet 1.9.1's names, defaults and meanings: those of images are the fields of
    `lowering.data.DetectionAugmentation`, and without random ones a batch is MXNet's, bit for bit. The order, the parts
    that MXNet cuts by bytes, threads and epochs are as of `ImageRecordIter`.

    Needs OpenCV (extra `data`). Raises TrainingError, also for a record whose label is none for detection, CallError,
    RecordFormatError, MissingExtraError.
    """

    @with_migration_hints(
        "ImageDetRecordIter",
        "ImageDetRecordIter(path_imgrec='train.rec', data_shape=(3, 300, 300), batch_size=32)",
    )
    def __init__(
        self,
        path_imgrec: StrPath,
        data_shape: tuple[int, int, int],
        batch_size: int,
        *,
        path_imglist: StrPath | None = None,
        label_width: int = -1,
        label_pad_width: int = 0,
        label_pad_value: float = -1.0,
        shuffle: bool = False,
        seed: int = 0,
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
        images = {"data_shape": data_shape, **check_ignored("ImageDetRecordIter", "det_aug_default", parameters)}
        detection_augmentation(images)  # wrong parameters are errors before a file is opened
        file = records_of(path_imgrec)
        labels = labels_of_list(path_imglist, label_width) if path_imglist else None
        width = _width_of(file, labels, label_width)
        if 0 < label_pad_width < width:
            fix = "Leave it out, or pass 0, to use that."
            raise TrainingError("Too short", param="label_pad_width", expected=width, got=label_pad_width, fix=fix)
        named = {"data_name": data_name, "label_name": label_name, "label_pad_value": label_pad_value}
        named["label_pad_width"] = max(width, label_pad_width)
        super().__init__(
            file,
            lambda mean: DetectionTransform(**named, **{**images, "mean_img": mean}),
            labels,
            batch_size,
            mean_img=images.get("mean_img", ""),
            shuffle=shuffle,
            seed=seed,
            seed_aug=None,
            shuffle_chunk_seed=shuffle_chunk_seed,
            num_parts=num_parts,
            part_index=part_index,
            round_batch=round_batch,
            preprocess_threads=preprocess_threads,
            prefetch_buffer=prefetch_buffer,
        )

    def _part(self, num_parts: int, part_index: int) -> Sequence[int]:
        """Return the records of one part of several: those that begin in as many bytes."""
        check_part(num_parts, part_index)
        step = -(-self.file.source.size // num_parts)
        step += -step % 4
        first, end = np.searchsorted(self.file.offsets, [step * part_index, step * (part_index + 1)])
        return range(int(first), int(end))


def _width_of(file: RecordFile, labels: Mapping[int, Any] | None, label_width: int) -> int:
    """Return the length of the longest label. Raises TrainingError if a record's label is not label_width > 0 long."""
    if labels is not None:
        return max(map(np.size, labels.values()), default=0)
    widths = [np.size(file.label(i)) for i in range(len(file))]
    if label_width > 0 and set(widths) - {label_width}:
        number = next(i for i, width in enumerate(widths) if width != label_width)
        raise TrainingError(
            f"Record {number} of {file.path} does not have label_width labels",
            param="label_width",
            expected=label_width,
            got=widths[number],
            fix="Use label_width=-1 for labels of any length.",
        )
    return max(widths, default=0)


class DetectionTransform:
    """Makes the sample of a record: an image as a network takes it, and its label."""

    def __init__(
        self, *, data_name: str, label_name: str, label_pad_width: int, label_pad_value: float, **parameters: Any
    ):
        self.parameters = p = detection_augmentation(parameters)
        self.data_name, self.label_name = data_name, label_name
        self._width, self._filler = label_pad_width, label_pad_value
        means, channels = (p.mean_r, p.mean_g, p.mean_b, p.mean_a), p.data_shape[0]
        if max(means) > 0:
            self._mean = np.array(means[:channels], np.float32).reshape(-1, 1, 1)
        else:
            self._mean = mean_image(p.mean_img, p.data_shape) if p.mean_img else np.zeros(1, np.float32)
        std = np.array((p.std_r, p.std_g, p.std_b, p.std_a)[:channels], np.float32).reshape(-1, 1, 1)
        self._std = np.where(std > 0, std, np.float32(1))

    @property
    def random(self) -> bool:
        """Return whether it draws random numbers."""
        return self.parameters.random

    def sample(self, header: IRHeader, data: bytes, draws: Draws | None, where: str) -> dict[str, np.ndarray]:
        """Return the sample of a record. where: the record's name in errors."""
        p = self.parameters
        label = detection_label(np.asarray(header.label), where)
        image = decode_bgr(data, p.data_shape[0], f"{where}, image {header.id},")
        try:
            image, label = augment_detection(image, label, p, draws_of(0) if draws is None else draws)
        except TrainingError as error:
            raise TrainingError(f"{where}: {error}") from None
        row = label.array()
        padded = np.full(self._width + _SIZES, self._filler, np.float32)
        rows, columns, channels = image.shape
        padded[: _SIZES + len(row)] = [channels, rows, columns, len(row), *row]
        planes = np.zeros(p.data_shape, np.float32)
        planes[:, :rows, :columns] = planes_of(image)
        planes = (planes - self._mean) / self._std * np.float32(p.scale)
        return {self.data_name: planes, self.label_name: padded}
