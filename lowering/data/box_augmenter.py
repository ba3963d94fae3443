"""MXNet's augmenter for detection (`image_det_aug_default.cc`): an image and its boxes, changed together.

Each function is one step of it, of images uint8 (height, width, channels) in blue, green, red, as OpenCV has them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lowering.data.augmenter_parameters import check_images, wrong
from lowering.data.boxes import DetectionLabel, Region
from lowering.data.opencv_steps import RANDOM, resized, saturated, with_border, with_hue, with_shorter_edge
from lowering.data.stable_draws import Draws
from symjax_nnvm.errors import CallError, refuse_unknown
from symjax_nnvm.io.files import StrPath

Numbers = float | Sequence[float]

_EMITS = ("center", "overlap")
_RESIZES = ("force", "shrink", "fit")
_COLOURS = ("hue", "saturation", "illumination", "contrast")
_SMALLEST_PAD = 1.05
_SMALLEST_CONTRAST = 1e-3


class CropSampler(NamedTuple):
    """One way to draw a crop: bounds, the least first, and how often it is tried."""

    scales: tuple[float, float]
    aspect_ratios: tuple[float, float]
    overlaps: tuple[float, float]
    sample_coverages: tuple[float, float]
    object_coverages: tuple[float, float]
    trials: int

    def takes(self, region: Region, label: DetectionLabel) -> bool:
        """Return whether one object is in the region within the bounds. Bounds of 0 and 1 require nothing."""
        shared, areas, area = label.shared_areas(region), label.areas(), region[2] * region[3]
        valid = np.ones(len(areas), bool)
        for (low, high), of in (
            (self.overlaps, areas + area - shared),
            (self.sample_coverages, area),
            (self.object_coverages, areas),
        ):
            if low > 0 or high < 1:
                valid &= (low <= shared / of) & (shared / of <= high)
        return bool(valid.any())


@dataclass(frozen=True, kw_only=True)
class DetectionAugmentation:
    """The augmentation of an image with boxes: names, defaults, meanings and the order of the steps are MXNet 1.9.1's.

    Bounds of crops are a number, or one for each of num_crop_sampler samplers.
    """

    data_shape: tuple[int, int, int]
    resize: int = -1  # the shorter edge's length
    random_hue_prob: float = 0.0
    max_random_hue: int = 0
    random_saturation_prob: float = 0.0
    max_random_saturation: int = 0
    random_illumination_prob: float = 0.0
    max_random_illumination: int = 0
    random_contrast_prob: float = 0.0
    max_random_contrast: float = 0.0
    rand_mirror_prob: float = 0.0
    rand_pad_prob: float = 0.0
    max_pad_scale: float = 1.0
    fill_value: int = 127
    rand_crop_prob: float = 0.0
    num_crop_sampler: int = 1
    min_crop_scales: Numbers = (0.0,)
    max_crop_scales: Numbers = (1.0,)
    min_crop_aspect_ratios: Numbers = (1.0,)
    max_crop_aspect_ratios: Numbers = (1.0,)
    min_crop_overlaps: Numbers = (0.0,)  # of crop and box, by the area of both together
    max_crop_overlaps: Numbers = (1.0,)
    min_crop_sample_coverages: Numbers = (0.0,)  # by the crop's area
    max_crop_sample_coverages: Numbers = (1.0,)
    min_crop_object_coverages: Numbers = (0.0,)  # by the box's area
    max_crop_object_coverages: Numbers = (1.0,)
    max_crop_trials: int | Sequence[int] = (25,)
    crop_emit_mode: str = "center"  # an object stays: its middle is in the crop; "overlap": enough of it is
    emit_overlap_thresh: float = 0.3
    resize_mode: str = "force"  # to data_shape; "shrink", "fit": within it, as it is or enlarged, the rest is 0
    inter_method: int = 1  # 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 any
    mean_img: StrPath = ""  # a file of one array (channels, height, width); the iterator makes it where it is missing
    mean_r: float = 0.0  # where one of the four is above 0 they are subtracted, and else the mean image
    mean_g: float = 0.0
    mean_b: float = 0.0
    mean_a: float = 0.0
    std_r: float = 0.0  # divides where it is above 0
    std_g: float = 0.0
    std_b: float = 0.0
    std_a: float = 0.0
    scale: float = 1.0
    dtype: str | None = None  # float32

    def __post_init__(self) -> None:
        coloured = [f"random_{name}_prob" for name in _COLOURS[:3]]
        check_images(self, coloured)
        for name, choices in (("crop_emit_mode", _EMITS), ("resize_mode", _RESIZES)):
            if getattr(self, name) not in choices:
                raise wrong(name, " or ".join(map(repr, choices)), getattr(self, name))
        if self.dtype not in (None, "float32"):
            raise wrong("dtype", "float32", self.dtype)
        if self.emit_overlap_thresh < 0:
            raise wrong("emit_overlap_thresh", "0 or more", self.emit_overlap_thresh)
        for i, sampler in enumerate(self.samplers):
            bounds = [*sampler[1:5], sampler.scales]
            if not 0 <= sampler.scales[0] < sampler.scales[1] <= 1:
                got = sampler.scales
                raise wrong("min_crop_scales, max_crop_scales", f"0 ≤ the first < the second ≤ 1, in sampler {i}", got)
            if sampler.aspect_ratios[0] < 0 or any(low > high for low, high in bounds):
                raise wrong("min_crop_…, max_crop_…", f"the first at most the second, in sampler {i}", sampler[1:5])

    @cached_property
    def samplers(self) -> list[CropSampler]:
        """Return the ways to draw a crop. Raises TrainingError."""
        count = self.num_crop_sampler

        def bounds(name: str) -> list[tuple[float, float]]:
            low, high = (self._numbers(f"{end}_crop_{name}") for end in ("min", "max"))
            return list(zip(low, high, strict=True))

        names = ("scales", "aspect_ratios", "overlaps", "sample_coverages", "object_coverages")
        rows = zip(*map(bounds, names), map(int, self._numbers("max_crop_trials")), strict=True) if count > 0 else ()
        return [CropSampler(*row) for row in rows]

    def _numbers(self, name: str) -> list[float]:
        setting = getattr(self, name)
        several = isinstance(setting, Sequence | np.ndarray) and not isinstance(setting, str)
        values: list[Any] = list(setting) if several else [setting]
        values = values * self.num_crop_sampler if len(values) == 1 else values
        numbers = all(isinstance(value, int | float | np.number) for value in values)
        if len(values) != self.num_crop_sampler or not numbers:
            raise wrong(name, f"a number, or one for each of num_crop_sampler={self.num_crop_sampler}", setting)
        return values

    @property
    def random(self) -> bool:
        """Return whether an image is drawn."""
        colours = (getattr(self, f"random_{n}_prob") > 0 and getattr(self, f"max_random_{n}") for n in _COLOURS)
        crops = self.rand_crop_prob > 0 and self.num_crop_sampler > 0
        pads = self.rand_pad_prob > 0 and self.max_pad_scale > 1
        return bool(any(colours) or crops or pads or 0 < self.rand_mirror_prob < 1 or self.inter_method == RANDOM)


DETECTION_AUGMENTS = [field.name for field in fields(DetectionAugmentation)]
"""The names of the parameters."""


def detection_augmentation(parameters: Mapping[str, Any]) -> DetectionAugmentation:
    """Return an augmentation from keywords. Raises CallError for an unknown one, TrainingError for a wrong value."""
    refuse_unknown(CallError, "ImageDetRecordIter has no parameter", parameters, DETECTION_AUGMENTS, "parameters")
    return DetectionAugmentation(**parameters)


def augment_detection(
    image: np.ndarray, label: DetectionLabel, p: DetectionAugmentation, draws: Draws
) -> tuple[np.ndarray, DetectionLabel]:
    """Return the image after all requested steps, within data_shape and not yet normalised, and its label."""
    if p.resize != -1:
        image = with_shorter_edge(image, p.resize, p.inter_method, draws)
    image = _coloured(image, p, draws)
    if p.rand_mirror_prob > 0 and draws.uniform() < p.rand_mirror_prob:
        image, label = image[:, ::-1], label.mirrored()
    if p.rand_pad_prob > 0 and p.max_pad_scale > 1 and draws.uniform() < p.rand_pad_prob:
        image, label = _padded(image, label, p, draws)
    if p.rand_crop_prob > 0 and p.num_crop_sampler > 0 and draws.uniform() < p.rand_crop_prob:
        image, label = _cropped(image, label, p, draws)
    return _fitted(np.ascontiguousarray(image), p, draws), label


def _coloured(image: np.ndarray, p: DetectionAugmentation, draws: Draws) -> np.ndarray:
    """Return the image with hue, saturation, lightness and contrast moved, each by chance."""

    def moved(name: str) -> float:
        amount = draws.uniform(-1, 1) * getattr(p, f"max_random_{name}")
        return amount if draws.uniform() < getattr(p, f"random_{name}_prob") else 0.0

    hue, saturation, lightness, contrast = map(moved, _COLOURS)
    if int(hue) or int(saturation) or int(lightness):
        image = with_hue(image, int(hue), int(saturation), int(lightness))
    return saturated(image * np.float32(1 + contrast)) if abs(contrast) > _SMALLEST_CONTRAST else image


def _padded(
    image: np.ndarray, label: DetectionLabel, p: DetectionAugmentation, draws: Draws
) -> tuple[np.ndarray, DetectionLabel]:
    """Return the image at a random place of a larger ground of one colour; unchanged if the ground is hardly larger."""
    scale = draws.uniform(1, p.max_pad_scale)
    if scale < _SMALLEST_PAD:
        return image, label
    left, top = draws.uniform(0, scale - 1), draws.uniform(0, scale - 1)
    rows, columns = image.shape[:2]
    sides = top * rows, (scale - top - 1) * rows, left * columns, (scale - left - 1) * columns
    top_rows, bottom_rows, left_columns, right_columns = (int(side) for side in sides)
    ground = [p.fill_value] * 3 + [0]
    image = with_border(image, top_rows, bottom_rows, left_columns, right_columns, ground)
    return image, label.within((-left, -top, scale, scale))


def _cropped(
    image: np.ndarray, label: DetectionLabel, p: DetectionAugmentation, draws: Draws
) -> tuple[np.ndarray, DetectionLabel]:
    """Return the first part of the image that a sampler takes and an object is in; the image where there is none."""
    edges = (image.shape[1], image.shape[0]) * 2
    for sampler in (p.samplers[i] for i in draws.shuffled(len(p.samplers))):
        for _ in range(sampler.trials):
            region = _drawn_region(sampler, edges[0] / edges[1], draws)
            left, top, width, height = (int(part * edge) for part, edge in zip(region, edges, strict=True))
            if not (width and height):  # MXNet's program ends where it resizes such a crop
                continue
            cropped_label = label
            if len(label.objects):
                if not sampler.takes(region, label):
                    continue
                cropped_label = label._replace(objects=label.objects[_stays(label, region, p)]).within(region)
                if not len(cropped_label.objects):
                    continue
            return image[top : top + height, left : left + width], cropped_label
    return image, label


def _stays(label: DetectionLabel, region: Region, p: DetectionAugmentation) -> np.ndarray:
    """Return whether each object stays in the label of a crop."""
    if p.crop_emit_mode == "center":
        return label.centred_in(region)
    return label.shared_areas(region) / label.areas() > p.emit_overlap_thresh


def _drawn_region(sampler: CropSampler, image_ratio: float, draws: Draws) -> Region:
    """A part of the image: scale² is its area, and its width by its height is within the bounds of pixels."""
    scale = draws.uniform(*sampler.scales) + 1e-12
    low = max(sampler.aspect_ratios[0] / image_ratio, scale * scale)
    high = min(sampler.aspect_ratios[1] / image_ratio, 1 / (scale * scale))
    ratio = math.sqrt(draws.uniform(low, high))
    width, height = min(1.0, scale * ratio), min(1.0, scale / ratio)
    return draws.uniform(0, 1 - width), draws.uniform(0, 1 - height), width, height


def _fitted(image: np.ndarray, p: DetectionAugmentation, draws: Draws) -> np.ndarray:
    """Return the image in the size of data_shape, or within it."""
    height, width = p.data_shape[1:]
    rows, columns = image.shape[:2]
    if p.resize_mode != "force":
        if p.resize_mode == "shrink" and rows <= height and columns <= width:
            return image
        ratio = min(np.float32(height) / np.float32(rows), np.float32(width) / np.float32(columns))
        height, width = int(ratio * np.float32(rows)), int(ratio * np.float32(columns))
    return resized(image, width, height, p.inter_method, draws)
