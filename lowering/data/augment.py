"""MXNet's default augmenter (`image_aug_default.cc`): from a decoded image to one of the shape that a network takes.

Each function is one step of it, of images uint8 (height, width, channels) in blue, green, red, as OpenCV has them.
Sizes and coefficients are computed in float32 where MXNet does so: a pixel more or less is another crop.
"""

from __future__ import annotations

import math

import numpy as np

from lowering.data.augmenter_parameters import Augmentation
from lowering.data.opencv_steps import (
    interpolation,
    resized,
    saturated,
    with_border,
    with_channels,
    with_hue,
    with_shorter_edge,
)
from lowering.data.stable_draws import Draws
from symjax_nnvm.errors import TrainingError
from symjax_nnvm.mxnet.images import opencv

_PCA = np.array(
    [
        [55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009],
        [55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140],
        [55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203],
    ],
    np.float32,
)
"""Eigenvectors of ImageNet's colours (rows: red, green, blue), each times its eigenvalue; of AlexNet's paper."""

_ATTEMPTS = 10  # at a random crop that is within the image


def augment(image: np.ndarray, p: Augmentation, draws: Draws) -> np.ndarray:
    """Return the image after all requested steps: (height, width, channels) of data_shape, not normalised."""
    height, width = p.data_shape[1:]
    if p.resize != -1:
        image = with_shorter_edge(image, p.resize, p.inter_method, draws)
    if p.affine:
        image = _affine(image, p, draws)
    if p.pad > 0:
        image = with_border(image, p.pad, p.pad, p.pad, p.pad, [p.fill_value] * 4)
    cropped = None
    if p.random_resized_crop:
        cropped = _random_resized_crop(image, p, draws)
    elif p.max_crop_size != -1 or p.min_crop_size != -1:
        cropped = _square_crop(image, p, draws)
    image = _crop(_at_least(image, p, draws), height, width, p, draws) if cropped is None else cropped
    if p.brightness or p.contrast or p.saturation:
        image = _jitter(image, p, draws)
    if p.random_h or p.random_s or p.random_l:
        image = _hue(image, p, draws)
    if p.pca_noise:
        image = _pca_noise(image, p, draws)
    return image


# -- sizes -----------------------------------------------------------------------------------------------------------


def _affine(image: np.ndarray, p: Augmentation, draws: Draws) -> np.ndarray:
    """Return the image sheared, rotated, scaled and stretched about the middle, in one step."""
    single = np.float32
    rows, columns = single(image.shape[0]), single(image.shape[1])
    shear = single(draws.uniform(-p.max_shear_ratio, p.max_shear_ratio))
    angle = p.rotate if p.rotate > 0 else draws.whole(-p.max_rotate_angle, p.max_rotate_angle)
    if p.rotate_list:
        angle = int(p.rotate_list[draws.whole(0, len(p.rotate_list) - 1)])
    cos, sin = single(math.cos(angle / 180 * math.pi)), single(math.sin(angle / 180 * math.pi))
    scale = ratio = single(1)
    if not p.random_resized_crop:
        scale = single(draws.uniform(p.min_random_scale, p.max_random_scale))
        ratio = single(draws.uniform(*p.aspect_ratios))
    high = 2 * scale / (1 + ratio)
    wide = ratio * high
    width, height = (max(single(p.min_img_size), min(single(p.max_img_size), scale * side)) for side in (columns, rows))
    matrix = np.array(
        [[high * cos - shear * sin * wide, high * sin + shear * cos * wide, 0], [-sin * wide, cos * wide, 0]], single
    )
    matrix[0, 2] = (width - (matrix[0, 0] * columns + matrix[0, 1] * rows)) / 2
    matrix[1, 2] = (height - (matrix[1, 0] * columns + matrix[1, 1] * rows)) / 2
    size = int(width), int(height)
    warped = opencv().warpAffine(
        image,
        matrix,
        size,
        flags=interpolation(image, *size, p.inter_method, draws),
        borderMode=opencv().BORDER_CONSTANT,
        borderValue=[p.fill_value] * 4,
    )
    return with_channels(warped, image)


# -- crops -----------------------------------------------------------------------------------------------------------


def _crop(image: np.ndarray, height: int, width: int, p: Augmentation, draws: Draws) -> np.ndarray:
    """Return a part of the image: its middle, or anywhere."""
    top, left = image.shape[0] - height, image.shape[1] - width
    top, left = (draws.whole(0, top), draws.whole(0, left)) if p.rand_crop else (top // 2, left // 2)
    return image[top : top + height, left : left + width]


def _at_least(image: np.ndarray, p: Augmentation, draws: Draws) -> np.ndarray:
    """Return the image, made larger where it is smaller than what is cut out of it."""
    height, width = p.data_shape[1:]
    if image.shape[0] < height:
        longer = int(np.float32(height) / np.float32(image.shape[0]) * np.float32(image.shape[1]))
        image = resized(image, longer, height, p.inter_method, draws)
    if image.shape[1] < width:
        longer = int(np.float32(width) / np.float32(image.shape[1]) * np.float32(image.shape[0]))
        image = resized(image, width, longer, p.inter_method, draws)
    if image.shape[0] < height or image.shape[1] < width:  # rounding, at most
        got = f"{image.shape[0]} × {image.shape[1]}"
        raise TrainingError(
            "The image is smaller than data_shape", expected=f"{height} × {width}", got=got, fix="resize=…"
        )
    return image


def _square_crop(image: np.ndarray, p: Augmentation, draws: Draws) -> np.ndarray:
    if min(image.shape[:2]) < p.max_crop_size:
        raise TrainingError(
            "The image is smaller than max_crop_size",
            param="max_crop_size",
            expected=f"at most {min(image.shape[:2])}, the shorter edge",
            got=p.max_crop_size,
            fix=f"With resize={p.max_crop_size} the shorter edge of every image is that long.",
        )
    side = draws.whole(p.min_crop_size, p.max_crop_size)
    return resized(_crop(image, side, side, p, draws), p.data_shape[2], p.data_shape[1], p.inter_method, draws)


def _random_resized_crop(image: np.ndarray, p: Augmentation, draws: Draws) -> np.ndarray | None:
    """Return a part of random area and shape, stretched; None where no part that was drawn is within the image."""
    if (p.min_random_area, p.max_random_area, *p.aspect_ratios) == (1, 1, 1, 1):
        return None
    rows, columns = image.shape[:2]
    for _ in range(_ATTEMPTS):
        area = rows * columns * draws.uniform(p.min_random_area, p.max_random_area)
        ratio = draws.uniform(*p.aspect_ratios)
        height, width = _rounded(math.sqrt(area / ratio)), _rounded(math.sqrt(area * ratio))
        if draws.uniform() > 0.5:
            height, width = width, height
        if 0 < height <= rows and 0 < width <= columns:
            top, left = draws.whole(0, rows - height), draws.whole(0, columns - width)
            part = image[top : top + height, left : left + width]
            return resized(part, p.data_shape[2], p.data_shape[1], p.inter_method, draws)
    return None


def _rounded(value: float) -> int:
    """Return a number rounded to the nearest whole number, halves away from 0, as C rounds."""
    return math.floor(value + 0.5)


# -- colours ---------------------------------------------------------------------------------------------------------


def _jitter(image: np.ndarray, p: Augmentation, draws: Draws) -> np.ndarray:
    """Return brightness, contrast and saturation, in any order. Grey is weighed as if blue were red, as in MXNet."""
    cv2 = opencv()
    bright, contrast, colour = (np.float32(1 + draws.uniform(-a, a)) for a in (p.brightness, p.contrast, p.saturation))
    for step in draws.shuffled(3):
        if step == 0:
            image = saturated(image * bright)
            continue
        grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
        if step == 1:
            image = saturated(image * contrast + (1 - contrast) * np.float32(cv2.mean(grey)[0]))
        else:
            image = cv2.addWeighted(image, float(colour), cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR), float(1 - colour), 0)
    return image


def _hue(image: np.ndarray, p: Augmentation, draws: Draws) -> np.ndarray:
    """Return the image with hue, lightness and saturation moved by one number each."""

    def moved(most: int) -> int:
        drawn = (draws.uniform() + 4 * draws.uniform()) / 5  # extreme values are rarer
        return int(drawn * most * 2 - most)

    hue, saturation, lightness = moved(p.random_h), moved(p.random_s), moved(p.random_l)
    return with_hue(image, hue, saturation, lightness)


def _pca_noise(image: np.ndarray, p: Augmentation, draws: Draws) -> np.ndarray:
    """Return a random step along the directions in which ImageNet's colours vary."""
    noise = _PCA @ np.array([draws.normal(p.pca_noise) for _ in range(3)], np.float32)
    return np.clip(np.trunc(image + noise[::-1]), 0, 255).astype(np.uint8)
