"""What `mx.image` does with the images of the record files: run in MXNet by make.py, and here by the tests.

`arrays(mx)` and `texts(mx)` run with either namespace. Python's and NumPy's generators are seeded before each scenario.
"""

import os
import random
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.goldens.records.sources import IMAGES

NAMES = ("wide.jpg", "high.jpg", "square.png", "turned.jpg")
LABELS = (2.0, 0.0, 3.0, 1.0)

_COLOURS = {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3, "hue": 0.2, "pca_noise": 0.2, "rand_gray": 0.5}
_BOXES = np.array([[1, 0.1, 0.2, 0.6, 0.7], [4, 0.3, 0.3, 0.9, 0.95], [2, 0.0, 0.5, 0.2, 0.6]], np.float32)
DETECTION = (
    [2, 5, 1, 0.1, 0.2, 0.6, 0.7],
    [2, 5, 4, 0.3, 0.3, 0.9, 0.9, 2, 0.0, 0.5, 0.5, 0.6],
    [3, 5, 7, 0, 0.2, 0.1, 0.8, 0.5],
    [2, 5, 3, 0.5, 0.5, 0.5, 0.9, 1, 0.4, 0.4, 1.0, 1.0],
)
"""Labels of the images: one box, two, a longer header, a box without area beside another."""


def seeded(number: int) -> None:
    """Seed what draws."""
    random.seed(number)
    np.random.seed(number)


def picture(dtype: str = "float32") -> np.ndarray:
    """An image (13, 17, 3)."""
    return np.random.RandomState(5).randint(0, 256, (13, 17, 3)).astype(dtype)


def arrays(mx: Any) -> Iterator[tuple[str, Any]]:
    """(name, array) of every scenario."""
    for part in (_decoded, _resized, _bordered, _cropped, _augmented, _detected, _rotated, _iterated):
        for name, value in part(mx):
            yield f"{part.__name__[1:]} {name}", value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)


def _decoded(mx: Any) -> Iterator[tuple[str, Any]]:
    for name, data in IMAGES.items():
        for flag in (0, 1):
            for to_rgb in (0, 1):
                yield f"{name} {flag} {to_rgb}", mx.image.imdecode(data, flag=flag, to_rgb=to_rgb)


def _resized(mx: Any) -> Iterator[tuple[str, Any]]:
    for dtype in ("uint8", "float32"):
        image = mx.nd.array(picture(dtype), dtype=dtype)
        for interp in range(5):
            for width, height in ((9, 7), (34, 26), (20, 5)):
                yield f"{dtype} {interp} {width} {height}", mx.image.imresize(image, width, height, interp)
    image = mx.nd.array(picture(), dtype="float32")
    for size in (6, 20):
        for interp in (1, 2, 9):
            yield f"short {size} {interp}", mx.image.resize_short(image, size, interp)


def _bordered(mx: Any) -> Iterator[tuple[str, Any]]:
    image = mx.nd.array(picture("uint8"), dtype="uint8")
    for kind in (*range(5), 16):
        yield str(kind), mx.image.copyMakeBorder(image, 2, 3, 4, 1, kind, values=(7, 8, 9))
    yield "wide", mx.image.copyMakeBorder(image, 20, 30, 40, 15, 4)
    yield "value", mx.image.copyMakeBorder(image, 1, 1, 1, 1, value=5)


def _cropped(mx: Any) -> Iterator[tuple[str, Any]]:
    image = mx.nd.array(picture(), dtype="float32")
    yield "fixed", mx.image.fixed_crop(image, 2, 3, 8, 5)
    yield "fixed resized", mx.image.fixed_crop(image, 2, 3, 8, 5, (4, 9), 1)
    for seed, size in enumerate(((8, 6), (30, 8), (17, 13), (9, 9))):
        seeded(seed)
        for name in ("random_crop", "center_crop"):
            part, place = getattr(mx.image, name)(image, size, 1)
            yield f"{name} {size}", part
            yield f"{name} {size} place", place
        part, place = mx.image.random_size_crop(image, size, (0.2, 0.9), (0.5, 2.0), 1)
        yield f"random_size_crop {size}", part
        yield f"random_size_crop {size} place", place
    for seed in range(4):
        seeded(seed)
        yield f"any {seed}", mx.image.random_crop(image, (8, 6), 10)[0]
    yield "normalized", mx.image.color_normalize(mx.nd.array(picture()), mx.nd.array([1, 2, 3]), mx.nd.array([4, 5, 8]))


def _augmenters(mx: Any) -> dict[str, Any]:
    values, vectors = np.array([55.46, 4.794, 1.148]), np.arange(9.0).reshape(3, 3) / 10
    image = mx.image
    return {
        "resize": image.ResizeAug(8, 1),
        "force resize": image.ForceResizeAug((6, 9), 1),
        "random crop": image.RandomCropAug((6, 5), 1),
        "random sized crop": image.RandomSizedCropAug((6, 5), 0.3, (0.5, 2.0), 1),
        "center crop": image.CenterCropAug((6, 5), 1),
        "flip": image.HorizontalFlipAug(0.5),
        "brightness": image.BrightnessJitterAug(0.4),
        "contrast": image.ContrastJitterAug(0.4),
        "saturation": image.SaturationJitterAug(0.4),
        "hue": image.HueJitterAug(0.4),
        "jitter": image.ColorJitterAug(0.3, 0.3, 0.3),
        "lighting": image.LightingAug(0.3, values, vectors),
        "normalize": image.ColorNormalizeAug(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 8.0])),
        "grey": image.RandomGrayAug(0.5),
        "cast": image.CastAug("uint8"),
        "order": image.RandomOrderAug([image.CastAug(), image.HorizontalFlipAug(1.0)]),
        "sequence": image.SequentialAug([image.HorizontalFlipAug(1.0), image.CastAug("int32")]),
    }


def _augmented(mx: Any) -> Iterator[tuple[str, Any]]:
    for name, augmenter in _augmenters(mx).items():
        for seed in range(3):
            seeded(seed)
            yield f"{name} {seed}", augmenter(mx.nd.array(picture(), dtype="float32"))
    every = mx.image.CreateAugmenter(
        (3, 8, 6),
        10,
        rand_crop=True,
        rand_resize=True,
        rand_mirror=True,
        mean=True,
        std=True,
        inter_method=1,
        **_COLOURS,
    )
    for seed in range(4):
        seeded(seed)
        image = mx.nd.array(picture("uint8"), dtype="uint8")
        for augmenter in every:
            image = augmenter(image)
        yield f"all {seed}", image


def _det_augmenters(mx: Any) -> dict[str, Any]:
    image = mx.image
    return {
        "borrow": image.DetBorrowAug(image.CastAug("int32")),
        "flip": image.DetHorizontalFlipAug(0.5),
        "crop": image.DetRandomCropAug(0.2, (0.5, 2.0), (0.2, 0.9), 0.2, 30),
        "pad": image.DetRandomPadAug((0.5, 2.0), (1.0, 4.0), 30, (1, 2, 3)),
        "select": image.DetRandomSelectAug([image.DetHorizontalFlipAug(1.0), image.DetRandomPadAug()], 0.3),
        "crops": image.CreateMultiRandCropAugmenter([0.1, 0.5], (0.75, 1.33), [(0.1, 1.0), (0.3, 0.9)], 0.3, 50, 0.1),
    }


def _detected(mx: Any) -> Iterator[tuple[str, Any]]:
    for name, augmenter in _det_augmenters(mx).items():
        for seed in range(5):
            seeded(seed)
            image, label = augmenter(mx.nd.array(picture(), dtype="float32"), _BOXES.copy())
            yield f"{name} {seed}", image
            yield f"{name} {seed} label", label
    every = mx.image.CreateDetAugmenter(
        (3, 12, 10), 14, 0.5, 0.5, rand_mirror=True, mean=True, std=True, inter_method=1, **_COLOURS
    )
    for seed in range(5):
        seeded(seed)
        image, label = mx.nd.array(picture("uint8"), dtype="uint8"), _BOXES.copy()
        for augmenter in every:
            image, label = augmenter(image, label)
        yield f"all {seed}", image
        yield f"all {seed} label", label


def _rotated(mx: Any) -> Iterator[tuple[str, Any]]:
    batch = np.random.RandomState(6).rand(2, 3, 9, 12).astype(np.float32)
    for zoom in ({}, {"zoom_in": True}, {"zoom_out": True}):
        yield f"one {zoom}", mx.image.imrotate(mx.nd.array(batch[0]), 25, **zoom)
        yield f"batch {zoom}", mx.image.imrotate(mx.nd.array(batch), mx.nd.array([-40, 100]), **zoom)
    seeded(1)
    yield "random", mx.image.random_rotate(mx.nd.array(batch[0]), (-30, 30))
    yield "random batch", mx.image.random_rotate(mx.nd.array(batch), (-30, 30))


def _batches(name: str, iterator: Any) -> Iterator[tuple[str, Any]]:
    """The batches of some epochs, where each begins, and what is filled up."""
    for epoch in range(3 if name.endswith("roll_over") else 2):
        if epoch:
            iterator.reset()
        for number, batch in enumerate(iterator):
            yield f"{name} {epoch} {number} data", batch.data[0]
            yield f"{name} {epoch} {number} label", batch.label[0]
            yield f"{name} {epoch} {number} pad", batch.pad


def _iterated(mx: Any) -> Iterator[tuple[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        record = mx.recordio.MXIndexedRecordIO(f"{folder}/a.idx", f"{folder}/a.rec", "w")
        for number, (name, label) in enumerate(zip(NAMES, LABELS, strict=True)):
            with open(f"{folder}/{name}", "wb") as file:
                file.write(IMAGES[name])
            record.write_idx(number, mx.recordio.pack((0, label, number, 0), IMAGES[name]))
        record.close()
        with open(f"{folder}/a.lst", "w") as file:
            for number, (name, label) in enumerate(zip(NAMES, LABELS, strict=True)):
                file.write(f"{number}\t{label}\t{label + 1}\t{name}\n")
        rec = {"path_imgrec": f"{folder}/a.rec"}
        indexed = {**rec, "path_imgidx": f"{folder}/a.idx"}
        rows = [[label, name] for label, name in zip(LABELS, NAMES, strict=True)]
        sources = {
            "records": (3, rec),
            "index": (3, indexed),
            "shuffled": (3, {**indexed, "shuffle": True}),
            "part": (1, {**indexed, "num_parts": 2, "part_index": 1}),
            "list": (3, {"path_imglist": f"{folder}/a.lst", "path_root": folder, "label_width": 2}),
            "rows": (3, {"imglist": rows, "path_root": folder, "dtype": "int32"}),
        }
        for name, (size, source) in sources.items():
            for handle in ("pad", "discard", "roll_over"):
                seeded(2)
                augment = {"rand_crop": True, "rand_mirror": True, "inter_method": 0}
                iterator = mx.image.ImageIter(size, (3, 10, 12), last_batch_handle=handle, **source, **augment)
                yield from _batches(f"{name} {handle}", iterator)
        boxes = [[*label, os.path.join(folder, name)] for label, name in zip(DETECTION, NAMES, strict=True)]
        for handle in ("pad", "discard", "roll_over"):
            seeded(3)
            augment = {"rand_mirror": True, "rand_crop": 0.5, "inter_method": 0}
            iterator = mx.image.ImageDetIter(
                2, (3, 10, 12), imglist=boxes, path_root="", last_batch_handle=handle, **augment
            )
            yield f"detection {handle} shape", iterator.label_shape
            yield from _batches(f"detection {handle}", iterator)


def texts(mx: Any) -> dict[str, Any]:
    """Name → what an augmenter dumps, or what an iterator says that it provides."""
    found = {name: each.dumps() for rows in (_augmenters(mx), _det_augmenters(mx)) for name, each in rows.items()}
    colours = {**_COLOURS, "mean": True, "std": np.array([1.0, 2.0, 3.0])}
    found["all"] = [each.dumps() for each in mx.image.CreateAugmenter((3, 8, 6), 9, rand_mirror=True, **colours)]
    found["all of boxes"] = [
        each.dumps() for each in mx.image.CreateDetAugmenter((3, 8, 6), 9, 0.5, 0.5, rand_mirror=True, **colours)
    ]
    return found
