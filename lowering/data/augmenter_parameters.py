"""The parameters of MXNet's `ImageRecordIter` for augmenting an image, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from lowering.data.opencv_steps import AUTO, RANDOM
from symjax_nnvm.errors import CallError, TrainingError, refuse_unknown
from symjax_nnvm.io.files import StrPath

_DTYPES = ("float32", "uint8", "int8")

IGNORED = ("ctx", "device_id", "verbose", "shuffle_chunk_size", "aug_seq")
"""Parameters of MXNet's that mean nothing here."""


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """The augmentation of an image: names, defaults, meanings and the order of the steps are MXNet 1.9.1's."""

    data_shape: tuple[int, int, int]
    resize: int = -1  # the shorter edge's length
    inter_method: int = 1  # 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 by the sizes, 10 any
    max_rotate_angle: int = 0
    rotate: int = -1  # one angle for all
    rotate_list: str | Sequence[int] = ""  # angles to draw from, "0,90,180"; becomes a tuple
    max_shear_ratio: float = 0.0
    max_random_scale: float = 1.0
    min_random_scale: float = 1.0
    max_aspect_ratio: float = 0.0
    min_aspect_ratio: float | None = None  # None: 1 - max_aspect_ratio, and 1 + max_aspect_ratio is the most
    max_img_size: float = 1e10
    min_img_size: float = 0.0
    fill_value: int = 255
    pad: int = 0
    random_resized_crop: bool = False
    max_random_area: float = 1.0
    min_random_area: float = 1.0
    max_crop_size: int = -1
    min_crop_size: int = -1
    rand_crop: bool = False
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    random_h: int = 0
    random_s: int = 0
    random_l: int = 0
    pca_noise: float = 0.0
    rand_mirror: bool = False
    mirror: bool = False
    max_random_contrast: float = 0.0
    max_random_illumination: float = 0.0
    mean_img: StrPath = (
        ""  # a file of one array (channels, height, width); ImageRecordIter makes it where it is missing
    )
    mean_r: float = 0.0
    mean_g: float = 0.0
    mean_b: float = 0.0
    mean_a: float = 0.0
    std_r: float = 1.0
    std_g: float = 1.0
    std_b: float = 1.0
    std_a: float = 1.0
    scale: float = 1.0
    dtype: str | None = None  # None is float32; uint8 is not normalised, int8 less the mean, rounded

    def __post_init__(self) -> None:
        coloured = ("brightness", "contrast", "saturation", "random_h", "random_s", "random_l", "pca_noise")
        check_images(self, coloured)
        if self.dtype is not None and np.dtype(self.dtype).name not in _DTYPES:
            raise wrong("dtype", ", ".join(_DTYPES), self.dtype)
        if 0 in (self.std_r, self.std_g, self.std_b, self.std_a):
            raise wrong("std_r, std_g, std_b, std_a", "numbers other than 0", 0)
        self._check_crops()
        object.__setattr__(self, "rotate_list", _angles(self.rotate_list))

    def _check_crops(self) -> None:
        sizes = self.min_crop_size, self.max_crop_size
        if sizes != (-1, -1) and not 1 <= sizes[0] <= sizes[1]:
            raise wrong("min_crop_size, max_crop_size", "both, the first at most the second, from 1", sizes)
        if not 0 < self.min_random_area <= self.max_random_area:
            got = self.min_random_area, self.max_random_area
            raise wrong("min_random_area, max_random_area", "the first above 0 and at most the second", got)
        low, high = self.aspect_ratios
        if not 0 < low <= high:
            raise wrong("min_aspect_ratio, max_aspect_ratio", "ratios above 0, the least first", (low, high))
        if self.random_resized_crop and (
            self.rand_crop or sizes != (-1, -1) or (self.min_random_scale, self.max_random_scale) != (1, 1)
        ):
            names = "rand_crop, min_crop_size, max_crop_size, min_random_scale, max_random_scale"
            raise wrong("random_resized_crop", f"none of {names} beside it", True)

    @property
    def aspect_ratios(self) -> tuple[float, float]:
        """Return the least and the most of width by height."""
        if self.min_aspect_ratio is None:
            return 1 - self.max_aspect_ratio, 1 + self.max_aspect_ratio
        return self.min_aspect_ratio, self.max_aspect_ratio

    @property
    def affine(self) -> bool:
        """Return whether images are sheared, rotated, scaled or stretched."""
        return (
            self.max_rotate_angle > 0
            or self.max_shear_ratio > 0
            or self.rotate > 0
            or bool(self.rotate_list)
            or (self.min_random_scale, self.max_random_scale) != (1, 1)
            or (not self.random_resized_crop and self.aspect_ratios != (1, 1))
            or (self.min_img_size, self.max_img_size) != (0, 1e10)
        )


def check_images(p: Any, coloured: Sequence[str]) -> None:
    """Raise TrainingError unless the numbers of a dataclass of parameters are numbers, and data_shape, inter_method and
    resize are valid. coloured: the parameters that need three channels."""
    for field in fields(p):
        if isinstance(field.default, int | float):
            _check_number(field.name, field.default, getattr(p, field.name))
    shape = p.data_shape
    if not isinstance(shape, tuple | list) or len(shape) != 3 or shape[0] not in (1, 3, 4) or min(shape) < 1:
        raise wrong("data_shape", "(channels, height, width) with 1, 3 or 4 channels", shape)
    if p.inter_method not in (0, 1, 2, 3, 4, AUTO, RANDOM):
        raise wrong("inter_method", "0, 1, 2, 3, 4, 9 or 10", p.inter_method)
    if p.resize != -1 and p.resize < 1:
        raise wrong("resize", "1 or more pixels, or -1", p.resize)
    if shape[0] != 3 and any(getattr(p, name) for name in coloured):
        raise wrong("data_shape", f"3 channels, for {', '.join(coloured)}", tuple(shape))
    object.__setattr__(p, "data_shape", tuple(shape))


def _check_number(name: str, default: Any, value: Any) -> None:
    kinds = (bool, int, np.bool_, np.integer) if isinstance(default, int) else (int, float, np.number)
    if not isinstance(value, kinds) or not math.isfinite(value):
        raise wrong(name, "a number" if isinstance(default, float) else f"a {type(default).__name__}", value)


AUGMENTS = [field.name for field in fields(Augmentation)]
"""The names of an augmentation's parameters."""


def augmentation(parameters: Mapping[str, Any]) -> Augmentation:
    """Return an augmentation from keywords. Raises CallError for an unknown one, TrainingError for a wrong value."""
    refuse_unknown(CallError, "ImageRecordIter has no parameter", parameters, AUGMENTS, "parameters")
    return Augmentation(**parameters)


def check_ignored(iterator: str, augmenter: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of images among an iterator's, without those that this library ignores.

    Raises CallError for another augmenter than MXNet's default one.
    """
    if parameters.get("aug_seq", augmenter) != augmenter:
        why = f"there is only the augmenter {augmenter}. Leave aug_seq out; add other steps with Grain's map"
        raise CallError(f"{iterator} does not support aug_seq: {why}.")
    return {name: value for name, value in parameters.items() if name not in IGNORED}


def check_part(num_parts: int, part_index: int) -> None:
    """Raise TrainingError where there is no such part."""
    if num_parts < 1 or not 0 <= part_index < num_parts:
        got = f"part {part_index} of {num_parts}"
        fix = "With jax.distributed use num_parts=jax.process_count(), part_index=jax.process_index()."
        raise TrainingError("There is no such part", expected="part_index from 0, below num_parts", got=got, fix=fix)


def part_of(count: int, num_parts: int, part_index: int) -> range:
    """Return the rows of one part of several, as MXNet cuts them by an index: runs of one length, the last shorter.

    Raises TrainingError.
    """
    check_part(num_parts, part_index)
    step = -(-count // num_parts)
    return range(min(count, part_index * step), min(count, (part_index + 1) * step))


def _angles(angles: str | Sequence[int]) -> tuple[int, ...]:
    """Return the angles of "0,90", MXNet's way to write them, or of numbers."""
    try:
        return tuple(int(angle) for angle in (angles.split(",") if isinstance(angles, str) else angles) if angle != "")
    except (TypeError, ValueError):
        raise wrong("rotate_list", "whole degrees: '0,90,180' or [0, 90, 180]", angles) from None


def wrong(name: str, expected: str, got: object) -> TrainingError:
    """Return the error of a parameter that has no meaning."""
    return TrainingError("A parameter for images is wrong", param=name, expected=expected, got=repr(got))
