"""`ImageRecordIter`: batches of images from a record file, with MXNet's parameters, for `Trainer.fit`."""

from __future__ import annotations

from typing import Any

from lowering.data.augmenter_parameters import check_ignored
from lowering.data.record_batches import RecordBatches, labels_of_list, records_of
from lowering.data.transform import ImageTransform
from lowering.messages.migration_hints import with_migration_hints
from symjax_nnvm.io.files import StrPath


class ImageRecordIter(RecordBatches):
    """Gives batches {data_name: (n, c, h, w), label_name: (n,) or (n, k)} of the images of a record file.

    Parameters have MXNet 1.9.1's names, defaults and meanings: those of images are the fields of
    `lowering.data.Augmentation`, and without random ones a batch is MXNet's, bit for bit (docs/guide/data.md lists the
    exceptions). preprocess_threads threads decode, and prefetch_buffer batches ahead. ctx, device_id, verbose and
    shuffle_chunk_size mean nothing. A mean_img that does not exist is made first, as by MXNet: the mean of what this
    iterator gives of the whole file, for every part.

    As `lowering.Batches`: `for batch in it` runs through epoch 0 and `it.epoch(n)` through any; what comes in epoch n,
    the order, crops and mirrors, depends on the seeds and n alone. Every epoch begins with the part's first image;
    MXNet's goes on behind those that filled the last batch. round_batch=False leaves the last batch short.

    Needs OpenCV (extra `data`). Raises TrainingError, CallError, RecordFormatError, MissingExtraError.
    """

    @with_migration_hints(
        "ImageRecordIter",
        "ImageRecordIter(path_imgrec='train.rec', data_shape=(3, 224, 224), batch_size=32)",
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
        images = {"data_shape": data_shape, "label_width": label_width, "data_name": data_name}
        images |= {"label_name": label_name, **check_ignored("ImageRecordIter", "aug_default", parameters)}
        ImageTransform(**{**images, "mean_img": ""})  # wrong parameters are errors before a file is opened
        super().__init__(
            records_of(path_imgrec, path_imgidx),
            lambda mean: ImageTransform(**{**images, "mean_img": mean}),
            labels_of_list(path_imglist, label_width) if path_imglist else None,
            batch_size,
            mean_img=images.get("mean_img", ""),
            shuffle=shuffle,
            seed=seed,
            seed_aug=seed_aug,
            shuffle_chunk_seed=shuffle_chunk_seed,
            num_parts=num_parts,
            part_index=part_index,
            round_batch=round_batch,
            preprocess_threads=preprocess_threads,
            prefetch_buffer=prefetch_buffer,
        )
