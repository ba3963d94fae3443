"""`mx.image.det`: changes of images together with the boxes of the objects in them, and ImageDetIter.

A label is an array (objects, 5 or more): a class, then left, top, right and bottom as parts of the width and height.
Python's and NumPy's global generators draw what is random, in MXNet's order.
"""

from __future__ import annotations

import json
import logging
import math
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from typing import Any

import numpy as np

from lowering.messages.counts import checks_flags
from lowering.mx.image.augmenters import (
    MEAN,
    STD,
    Augmenter,
    CastAug,
    CreateAugmenter,
    ForceResizeAug,
    ResizeAug,
    colour_augmenters,
    flipped,
    plain,
)
from lowering.mx.image.crops import fixed_crop
from lowering.mx.image.iterator import BrokenImageError, ImageIter
from lowering.mx.image.pixels import copyMakeBorder
from lowering.mx.ndarray.array import NDArray
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import CallError, ParamError
from symjax_nnvm.mxnet.images import opencv

Size = tuple[int, int]
"""(width, height)."""

Box = tuple[int, int, int, int]
"""(x, y, width, height) in pixels."""

_SMALLEST = 2
"""Pixels: crops and objects of fewer are none, and a border of fewer is not worth the work."""


class DetAugmenter:
    """The base class of augmenters of images with boxes: a subclass defines `__call__`, which returns image and label.

    Args:
        kwargs: the parameters, which `dumps` returns.
    """

    def __init__(self, **kwargs: Any):
        self._kwargs = plain(kwargs)

    def dumps(self) -> Any:
        """Return the name of the class and the parameters, as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: NDArray | np.ndarray, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """The changed image and its label."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, src, label)")


class DetBorrowAug(DetAugmenter):
    """An augmenter of images as one of images with boxes; it must not move anything.

    Args:
        augmenter: the augmenter.

    Raises:
        CallError: `augmenter` is not an Augmenter.
    """

    def __init__(self, augmenter: Augmenter):
        if not isinstance(augmenter, Augmenter):
            raise CallError("Borrowing from invalid Augmenter", got=type(augmenter).__name__)
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self) -> Any:
        """Return the name of the class, and what the augmenter's `dumps` returns."""
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src: NDArray | np.ndarray, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """The changed image, and the label as it is."""
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One of several augmenters for each image.

    Args:
        aug_list: the augmenters.
        skip_prob: the probability of using none.
    """

    def __init__(self, aug_list: Any, skip_prob: float = 0):
        super().__init__(skip_prob=skip_prob)
        self.aug_list = list(aug_list) if isinstance(aug_list, list | tuple) else [aug_list]
        for augmenter in self.aug_list:
            if not isinstance(augmenter, DetAugmenter):
                raise ParamError("Allow DetAugmenter in list only", got=type(augmenter).__name__)
        self.skip_prob = skip_prob if self.aug_list else 1

    def dumps(self) -> Any:
        """Return the name of the class, and what the augmenters' `dumps` return."""
        return [type(self).__name__.lower(), [augmenter.dumps() for augmenter in self.aug_list]]

    def __call__(self, src: NDArray | np.ndarray, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the image and label after an augmenter chosen at random."""
        if random.random() < self.skip_prob:
            return src, label
        random.shuffle(self.aug_list)
        return self.aug_list[0](src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Exchanges left and right with the probability `p`; the label is written."""

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray | np.ndarray, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """Both, flipped or not."""
        if random.random() < self.p:
            src = flipped(src)
            label[:, [1, 3]] = 1 - label[:, [3, 1]]
        return src, label


# -- crops and borders -----------------------------------------------------------------------------------------------


def _range(bounds: Any) -> tuple[float, float]:
    """Return two numbers, or one for both."""
    low, high = bounds if isinstance(bounds, list | tuple) else (bounds, bounds)
    return low, high


def _heights(ratio: float, areas: tuple[float, float], limit: Callable[[int, int], tuple[int, int]]) -> int:
    """Return a height, drawn of those that an image of this ratio has within two areas."""
    low, high = limit(*(round(math.sqrt(area / ratio)) for area in areas))
    low = min(low, high)
    return random.randint(low, high) if low < high else low


def _areas(boxes: np.ndarray) -> np.ndarray:
    """Return the areas of boxes (n, 4 or more): left, top, right, bottom."""
    return np.maximum(0, boxes[:, 2] - boxes[:, 0]) * np.maximum(0, boxes[:, 3] - boxes[:, 1])


class DetRandomCropAug(DetAugmenter):
    """Cuts a part out of the image, with some of its objects.

    Args:
        min_object_covered: the share of each object, of which the part has anything, that must be in it.
        aspect_ratio_range: the smallest and the largest width for a height of 1.
        area_range: the smallest and the largest part of the image's area.
        min_eject_coverage: objects of which less is left are dropped.
        max_attempts: how many parts are drawn; if none fits, the image stays as it is.
    """

    def __init__(
        self,
        min_object_covered: float = 0.1,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (0.05, 1.0),
        min_eject_coverage: float = 0.3,
        max_attempts: int = 50,
    ):
        ratios, areas = _range(aspect_ratio_range), _range(area_range)
        super().__init__(
            min_object_covered=min_object_covered,
            aspect_ratio_range=ratios,
            area_range=areas,
            min_eject_coverage=min_eject_coverage,
            max_attempts=max_attempts,
        )
        self.min_object_covered, self.min_eject_coverage = min_object_covered, min_eject_coverage
        self.max_attempts, self.aspect_ratio_range, self.area_range = max_attempts, ratios, areas
        self.enabled = _possible("DetRandomCropAug", ratios, areas, least=0)

    def __call__(self, src: NDArray | np.ndarray, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """The part, and its objects."""
        for _ in range(self.max_attempts if self.enabled and 0 not in src.shape else 0):
            place = self._drawn(src.shape[0], src.shape[1])
            objects = place and self._objects(label, place, src.shape[0], src.shape[1])
            if place and objects is not None:
                return fixed_crop(src, *place), objects
        return src, label

    def _drawn(self, height: int, width: int) -> Box | None:
        """Return a place within the image, of an allowed shape and area; None if the drawn one is not allowed."""
        ratio = random.uniform(*self.aspect_ratio_range)
        if ratio <= 0:
            return None
        least, most = (part * height * width for part in self.area_range)

        def within(low: int, high: int) -> tuple[int, int]:
            high = int((width + 0.4999999) / ratio) if round(high * ratio) > width else high
            return low, min(high, height)

        high = _heights(ratio, (least, most), within)
        if high * round(high * ratio) < least:  # rounding
            high += 1
        if high * round(high * ratio) > most:
            high -= 1
        wide = round(high * ratio)
        if not (least <= high * wide <= most and 0 <= wide <= width and 0 <= high <= height):
            return None
        y = random.randint(0, height - high)
        return random.randint(0, width - wide), y, wide, high

    def _objects(self, label: np.ndarray, place: Box, height: int, width: int) -> np.ndarray | None:
        """Return the objects of a part, in its coordinates; None for one too small or that cuts one off too much."""
        x, y, wide, high = place
        if wide * high < _SMALLEST:
            return None
        part = np.array([x / width, y / height, (x + wide) / width, (y + high) / height], label.dtype)
        boxes = label[:, 1:5]
        large = boxes[_areas(boxes) * width * height > _SMALLEST]
        inside = np.concatenate([np.maximum(large[:, :2], part[:2]), np.minimum(large[:, 2:], part[2:])], 1)
        covered = _areas(inside) / _areas(large)
        covered = covered[covered > 0]
        if not covered.size or covered.min() <= self.min_object_covered:
            return None
        moved = label.copy()
        scale = np.array([wide / width, high / height] * 2, label.dtype)
        moved[:, 1:5] = np.clip((boxes - np.tile(part[:2], 2)) / scale, 0, 1)
        with np.errstate(divide="ignore", invalid="ignore"):  # an object without area is left out below
            area_shares = _areas(moved[:, 1:5]) * scale[0] * scale[1] / _areas(boxes)
        mask = (moved[:, 3] > moved[:, 1]) & (moved[:, 4] > moved[:, 2]) & (area_shares > self.min_eject_coverage)
        return moved[mask] if mask.any() else None


class DetRandomPadAug(DetAugmenter):
    """Puts a border around the image.

    Args:
        aspect_ratio_range: the smallest and the largest width, with the border, for a height of 1.
        area_range: the smallest and the largest area with the border, as a multiple of the image's.
        max_attempts: how many borders are drawn; if none fits, the image stays as it is.
        pad_val: the border's colour, a number for each channel or for all.
    """

    def __init__(
        self,
        aspect_ratio_range: Any = (0.75, 1.33),
        area_range: Any = (1.0, 3.0),
        max_attempts: int = 50,
        pad_val: Any = (128, 128, 128),
    ):
        ratios, areas = _range(aspect_ratio_range), _range(area_range)
        super().__init__(aspect_ratio_range=ratios, area_range=areas, max_attempts=max_attempts, pad_val=pad_val)
        self.pad_val = pad_val
        self.aspect_ratio_range, self.area_range, self.max_attempts = ratios, areas, max_attempts
        self.enabled = _possible("DetRandomPadAug", ratios, areas, least=1)

    def __call__(self, src: NDArray | np.ndarray, label: np.ndarray) -> tuple[Any, np.ndarray]:
        """The image with its border, and the boxes in it."""
        height, width, _ = src.shape
        for _ in range(self.max_attempts if self.enabled and height and width else 0):
            place = self._drawn(height, width)
            if place:
                x, y, wide, high = place
                moved = label.copy()
                moved[:, [1, 3]] = (label[:, [1, 3]] * width + x) / wide
                moved[:, [2, 4]] = (label[:, [2, 4]] * height + y) / high
                values = (self.pad_val,) * src.shape[2] if isinstance(self.pad_val, Number) else self.pad_val
                around = y, high - y - height, x, wide - x - width
                return copyMakeBorder(src, *around, values=values), moved
        return src, label

    def _drawn(self, height: int, width: int) -> Box | None:
        """Return a place of the image in a larger one, and the size of that; None where what was drawn is none."""
        ratio = random.uniform(*self.aspect_ratio_range)
        if ratio <= 0:
            return None
        least, most = (part * height * width for part in self.area_range)

        def around(low: int, high: int) -> tuple[int, int]:
            low = int((width + 0.499999) / ratio) if round(low * ratio) < width else low
            return max(low, height), high

        high = _heights(ratio, (least, most), around)
        wide = round(high * ratio)
        if high - height < _SMALLEST or wide - width < _SMALLEST:
            return None
        y = random.randint(0, high - height)
        return random.randint(0, wide - width), y, wide, high


def _possible(name: str, ratios: tuple[float, float], areas: tuple[float, float], least: float) -> bool:
    """Return whether ranges can be drawn from; warns where they cannot."""
    for what, (low, high), wrong in (
        ("area_range", areas, areas[1] <= least),
        ("aspect_ratio_range", ratios, ratios[0] <= 0),
    ):
        if wrong or low > high:
            warnings.warn(f"Skip {name} due to invalid {what}: {(low, high)}", stacklevel=3)
            return False
    return True


# -- all at once -----------------------------------------------------------------------------------------------------


@explained_by(DetRandomCropAug)
def CreateMultiRandCropAugmenter(
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 1.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    skip_prob: float = 0,
) -> DetRandomSelectAug:
    """Return an augmenter that uses one of several DetRandomCropAug for each image.

    Parameters are lists with a value for each, or one value for all.

    Args:
        skip_prob: the share of images that stay as they are.

    Raises:
        CallError: lists have different lengths.
    """
    parameters = (min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts)
    lists = [value if isinstance(value, list) else [value] for value in parameters]
    count = max(map(len, lists))
    if any(len(values) not in (1, count) for values in lists):
        raise CallError(
            "Lists of parameters have different lengths", expected=f"1 or {count}", got=list(map(len, lists))
        )
    rows = zip(*(values if len(values) == count else values * count for values in lists), strict=True)
    return DetRandomSelectAug([DetRandomCropAug(*row) for row in rows], skip_prob)


@checks_flags
@explained_by(CreateAugmenter, CreateMultiRandCropAugmenter, DetRandomPadAug)
def CreateDetAugmenter(
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: float = 0,
    rand_pad: float = 0,
    rand_gray: float = 0,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    pca_noise: float = 0,
    hue: float = 0,
    inter_method: int = 2,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = (0.75, 1.33),
    area_range: Any = (0.05, 3.0),
    min_eject_coverage: Any = 0.3,
    max_attempts: Any = 50,
    pad_val: Any = (127, 127, 127),
) -> list[DetAugmenter]:
    """Return the augmenters that make an image with boxes one of `data_shape`, not yet transposed.

    Args:
        data_shape: (3, height, width).
        rand_crop: the share of images that are cut.
        rand_pad: the share of images that get a border.
        area_range: as in CreateMultiRandCropAugmenter, and in DetRandomPadAug.

    Raises:
        CallError: an argument has a wrong value.
    """
    chosen: list[DetAugmenter] = [DetBorrowAug(ResizeAug(resize, inter_method))] if resize > 0 else []
    if rand_crop > 0:
        ranges = min_object_covered, aspect_ratio_range, area_range, min_eject_coverage, max_attempts
        chosen.append(CreateMultiRandCropAugmenter(*ranges, skip_prob=1 - rand_crop))
    if rand_mirror > 0:
        chosen.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:
        pad = DetRandomPadAug(aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val)
        chosen.append(DetRandomSelectAug([pad], 1 - rand_pad))
    last: list[Augmenter] = [ForceResizeAug((data_shape[2], data_shape[1]), inter_method), CastAug()]
    mean, std = (usual if value is True else value for value, usual in ((mean, MEAN), (std, STD)))
    last += colour_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray, mean, std)
    return chosen + [DetBorrowAug(augmenter) for augmenter in last]


# -- the iterator ----------------------------------------------------------------------------------------------------


@explained_by(ImageIter)
class ImageDetIter(ImageIter):
    """Batches of images (n, 3, height, width) and the boxes in them (n, objects, 5 or more), filled up with -1.

    A label in a file or a list is a row of numbers: how many there are before the objects, 2 or more; how many an
    object has, 5 or more; then the objects. Images without valid boxes, before or after the augmenters, are left out.
    Raises what `mx.image.ImageIter` raises.

    Args:
        aug_list: augmenters of images and boxes; None for those of `mx.image.CreateDetAugmenter(data_shape, **kwargs)`.
        kwargs: arguments of `mx.image.CreateDetAugmenter`.
    """

    @checks_flags
    def __init__(
        self,
        batch_size: int,
        data_shape: tuple[int, ...],
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
        label_name: str = "label",
        last_batch_handle: str = "pad",
        **kwargs: Any,
    ):
        super().__init__(
            batch_size=batch_size,
            data_shape=data_shape,
            path_imgrec=path_imgrec,
            path_imglist=path_imglist,
            path_root=path_root,
            path_imgidx=path_imgidx,
            shuffle=shuffle,
            part_index=part_index,
            num_parts=num_parts,
            aug_list=[],
            imglist=imglist,
            data_name=data_name,
            label_name=label_name,
            last_batch_handle=last_batch_handle,
        )
        self.auglist = CreateDetAugmenter(data_shape, **kwargs) if aug_list is None else list(aug_list)
        self.label_shape = self._largest_label()
        self.provide_label = [(label_name, (batch_size, *self.label_shape))]

    def _largest_label(self) -> Size:
        """Return (most objects of an image, numbers of an object). Reads every label; raises BrokenImageError."""
        count = width = 0
        self.reset()
        while True:
            try:
                label = self._parse_label(self.next_sample()[0])
            except StopIteration:
                break
            count, width = max(count, label.shape[0]), label.shape[1]
        self.reset()
        return count, width

    def _parse_label(self, label: Any) -> np.ndarray:
        """Return the objects (n, 5 or more) of a label, without those whose box is none. Raises BrokenImageError."""
        raw = np.asarray(label).ravel()
        if raw.size < 7:
            raise BrokenImageError("Label shape is invalid", expected="7 numbers at least", got=raw.shape)
        header, width = int(raw[0]), int(raw[1])
        if width < 5 or header < 2 or (raw.size - header) % width:
            raise BrokenImageError(f"Label shape {raw.shape} inconsistent with annotation width {width}.")
        boxes = raw[header:].reshape(-1, width)
        boxes = boxes[(boxes[:, 3] > boxes[:, 1]) & (boxes[:, 4] > boxes[:, 2])]
        if not len(boxes):
            raise BrokenImageError("Encounter sample with no valid label.")
        return boxes

    def _check_valid_label(self, label: np.ndarray) -> None:
        """Raise BrokenImageError for what augmenters left of a label where that has no box."""
        if label.ndim != 2 or label.shape[1] < 5:
            raise BrokenImageError("Label with shape (1+, 5+) required", got=label.shape)
        if not ((label[:, 0] >= 0) & (label[:, 3] > label[:, 1]) & (label[:, 4] > label[:, 2])).any():
            raise BrokenImageError("Invalid label occurs.")

    def _empty(self) -> tuple[np.ndarray, np.ndarray]:
        data, label = super()._empty()
        label[:] = -1
        return data, label

    def _sample(self, label: Any, encoded: bytes) -> tuple[Any, np.ndarray] | None:
        """Return an image and its boxes after all augmenters; None where there are no boxes."""
        data = self.imdecode(encoded)
        try:
            self.check_valid_image([data])
            data, boxes = self.augmentation_transform(data, self._parse_label(label))
            self._check_valid_label(boxes)
        except RuntimeError as error:
            logging.debug("Invalid image, skipping:  %s", error)
            return None
        return data, boxes

    def _put(self, data: Any, label: Any, batch_data: np.ndarray, batch_label: np.ndarray, number: int) -> None:
        batch_data[number] = np.asarray(self.postprocess_data(data))
        batch_label[number] = -1
        batch_label[number, : len(label)] = label

    def augmentation_transform(self, data: Any, label: Any = None) -> Any:
        """Return the image and its boxes after all augmenters."""
        for augmenter in self.auglist:
            data, label = augmenter(data, label)
        return data, label

    # -- other shapes --------------------------------------------------------------------------------------------------

    def reshape(self, data_shape: tuple[int, ...] | None = None, label_shape: Size | None = None) -> None:
        """Change the shapes of images and labels.

        Args:
            data_shape: (3, height, width); None to keep it.
            label_shape: (objects, numbers); None to keep it.

        Raises:
            ParamError: labels or images do not fit a shape.
        """
        if data_shape is not None:
            self.check_data_shape(data_shape)
            self.provide_data = [(self.provide_data[0][0], (self.batch_size, *data_shape))]
            self.data_shape = data_shape
        if label_shape is not None:
            self.check_label_shape(label_shape)
            self.provide_label = [(self.provide_label[0][0], (self.batch_size, *label_shape))]
            self.label_shape = label_shape

    def check_label_shape(self, label_shape: Sequence[int]) -> None:
        """Raise ParamError, a ValueError, for a shape that labels do not fit into."""
        if len(label_shape) != 2:
            raise ParamError("label_shape should have length 2", got=label_shape)
        if label_shape[0] < self.label_shape[0]:
            problem = f"Attempts to reduce label count from {self.label_shape[0]} to {label_shape[0]}, not allowed."
            raise ParamError(problem)
        if label_shape[1] != self.label_shape[1]:
            problem = f"label_shape object width inconsistent: {self.label_shape[1]} vs {label_shape[1]}."
            raise ParamError(problem)

    def sync_label_shape(self, it: ImageDetIter, verbose: bool = False) -> ImageDetIter:
        """Give this iterator and another one labels of the same number of objects, and return the other one.

        Args:
            it: the other iterator.
            verbose: log the new shape.

        Raises:
            CallError: `it` is not an ImageDetIter.
        """
        if not isinstance(it, ImageDetIter) or it.label_shape[1] != self.label_shape[1]:
            raise CallError(
                "Synchronize with invalid iterator.",
                expected="an ImageDetIter whose objects have the same number of values",
            )
        counts = self.label_shape[0], it.label_shape[0]
        shape = max(counts), self.label_shape[1]
        for iterator in (self, it):
            iterator.reshape(None, shape)
        if verbose and counts[0] != counts[1]:
            logging.info("Resized label_shape to (%d, %d).", *shape)
        return it

    # -- pictures ------------------------------------------------------------------------------------------------------

    def draw_next(
        self,
        color: Any = None,
        thickness: int = 2,
        mean: Any = None,
        std: Any = None,
        clip: bool = True,
        waitKey: int | None = None,
        window_name: str = "draw_next",
        id2labels: Any = None,
    ) -> Iterator[np.ndarray]:
        """Return the images of an epoch with their boxes drawn, uint8 (h, w, 3) in blue, green, red, by OpenCV.

        Args:
            color: red, green and blue of the boxes; None for random colours.
            thickness: the thickness of the lines, in pixels.
            mean: what was subtracted from the images; True for ImageNet's.
            std: what the images were divided by; True for ImageNet's.
            clip: limit values to 0 and 255.
            waitKey: show each image in a window for this number of milliseconds.
            window_name: the title of the window.
            id2labels: the names of classes.

        Raises:
            MissingExtraError: OpenCV is not installed.
        """
        cv2 = opencv()
        mean, std = (usual if value is True else value for value, usual in ((mean, MEAN), (std, STD)))
        while True:
            try:
                sample = self._sample(*self.next_sample())
            except StopIteration:
                return
            if sample is None:
                continue
            image, boxes = np.asarray(sample[0], np.float32), sample[1]
            image = image * (1 if std is None else std) + (0 if mean is None else mean)
            image = (np.clip(image, 0, 255) if clip else image).astype(np.uint8)
            image = np.ascontiguousarray(image[..., ::-1])
            sizes = np.tile(image.shape[1::-1], 2)
            for box in boxes[boxes[:, 1] >= 0]:
                left, top, right, bottom = (int(place) for place in box[1:5] * sizes)
                colour = np.random.rand(3) * 255 if color is None else color[::-1]
                cv2.rectangle(image, (left, top), (right, bottom), tuple(map(float, colour)), thickness)
                name = (id2labels or {}).get(int(box[0]))
                if name is not None:
                    font = cv2.FONT_HERSHEY_SIMPLEX
                    below = top + cv2.getTextSize(str(name), font, 0.5, 2)[0][1] + 5
                    cv2.putText(image, str(name), (left + 5, below), font, 0.5, (255, 255, 255), 2)
            if waitKey is not None:
                cv2.imshow(window_name, image)
                cv2.waitKey(waitKey)
            yield image
