"""Changes of images (height, width, channels), one after the other: `aug(image)` is the changed image.

Python's and NumPy's global generators draw what is random, in MXNet's order. Changes of colour write the image that
they are given, as in MXNet, and are for float32: CastAug comes before them.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from lowering.messages.counts import checks_flags
from lowering.mx.image.crops import (
    Size,
    center_crop,
    color_normalize,
    interpolation,
    random_crop,
    random_size_crop,
    resize_short,
)
from lowering.mx.image.pixels import as_image, imresize, pixels
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.creation import array
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import CallError

__all__ = [
    "Augmenter",
    "BrightnessJitterAug",
    "CastAug",
    "CenterCropAug",
    "ColorJitterAug",
    "ColorNormalizeAug",
    "ContrastJitterAug",
    "CreateAugmenter",
    "ForceResizeAug",
    "HorizontalFlipAug",
    "HueJitterAug",
    "LightingAug",
    "RandomCropAug",
    "RandomGrayAug",
    "RandomOrderAug",
    "RandomSizedCropAug",
    "ResizeAug",
    "SaturationJitterAug",
    "SequentialAug",
]

_GREY = np.array([[[0.299, 0.587, 0.114]]], np.float32)
"""What red, green and blue are to the eye's grey (ITU-R BT.601)."""

_TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])
"""Colours as lightness and two coordinates of hue, and back: NTSC's, rounded as MXNet rounds them."""

_RANDOM_GREY = np.array([[0.21] * 3, [0.72] * 3, [0.07] * 3], np.float32)

MEAN, STD = np.array([123.68, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
"""Of ImageNet's red, green and blue: what `mean=True` and `std=True` stand for."""

_EIGENVALUES = np.array([55.46, 4.794, 1.148])
_EIGENVECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
"""Of ImageNet's colours; of AlexNet's paper."""


def plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters that JSON can hold: arrays as lists."""
    listed = {name: np.asarray(value).tolist() for name, value in parameters.items() if hasattr(value, "shape")}
    return {**parameters, **listed}


def _written(src: NDArray | np.ndarray, values: np.ndarray) -> Any:
    """Return the image, with other values in its own dtype."""
    src[:] = values.astype(np.asarray(src).dtype)
    return src


class Augmenter:
    """The base class of augmenters: a subclass defines `__call__`, which returns the changed image.

    Args:
        kwargs: the parameters, which `dumps` returns.
    """

    def __init__(self, **kwargs: Any):
        self._kwargs = plain(kwargs)

    def dumps(self) -> Any:
        """Return the name of the class and the parameters, as JSON."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """The changed image."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, src)")


class SequentialAug(Augmenter):
    """Several augmenters, one after the other.

    Args:
        ts: the augmenters.
    """

    def __init__(self, ts: Sequence[Augmenter]):
        super().__init__()
        self.ts = ts

    def dumps(self) -> Any:
        """Return the name of the class, and what the augmenters' `dumps` return."""
        return [type(self).__name__.lower(), [augmenter.dumps() for augmenter in self.ts]]

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """The image after all of them."""
        for augmenter in self.ts:
            src = augmenter(src)
        return src


class RandomOrderAug(SequentialAug):
    """Several augmenters in a random order, another one for each image.

    Args:
        ts: the augmenters.
    """

    def __init__(self, ts: list[Augmenter]):
        super().__init__(ts)
        self.ts: list[Augmenter] = ts

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """The image after all of them."""
        random.shuffle(self.ts)
        return super().__call__(src)


# -- sizes -----------------------------------------------------------------------------------------------------------


class ResizeAug(Augmenter):
    """Resizes an image so that its shorter edge has `size` pixels.

    Args:
        size: the number of pixels.
        interp: the method of resizing: 0 to 4 as in `mx.image.imresize`, 9 for a fitting one, 10 for a random one.
    """

    def __init__(self, size: int, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray | np.ndarray) -> NDArray:
        """The resized image."""
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(Augmenter):
    """Resizes an image to a size, whatever its proportions.

    Args:
        size: (width, height).
        interp: the method of resizing: 0 to 4 as in `mx.image.imresize`, 9 for a fitting one, 10 for a random one.
    """

    def __init__(self, size: Size, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray | np.ndarray) -> NDArray:
        """The resized image."""
        sizes = (*src.shape[:2], self.size[1], self.size[0])
        return imresize(src, *self.size, interp=interpolation(self.interp, sizes))


@explained_by(ForceResizeAug)
class RandomCropAug(Augmenter):
    """Cuts a part of a fixed size out of an image, anywhere."""

    def __init__(self, size: Size, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray | np.ndarray) -> NDArray:
        """The part."""
        return random_crop(src, self.size, self.interp)[0]


@explained_by(random_size_crop)
class RandomSizedCropAug(Augmenter):
    """Cuts a part of random area and shape out of an image and resizes it.

    Args:
        size: (width, height) of the result.
    """

    def __init__(self, size: Size, area: Any, ratio: tuple[float, float], interp: int = 2, **kwargs: Any):
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        if "min_area" in kwargs:
            warnings.warn("`min_area` is deprecated. Please use `area` instead.", DeprecationWarning, stacklevel=2)
            area = kwargs.pop("min_area")
        if kwargs:
            problem = "unexpected keyword arguments for `RandomSizedCropAug`."
            raise CallError(problem, got=", ".join(kwargs))
        self.size, self.area, self.ratio, self.interp = size, area, ratio, interp

    def __call__(self, src: NDArray | np.ndarray) -> NDArray:
        """The part."""
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


@explained_by(ForceResizeAug)
class CenterCropAug(Augmenter):
    """Cuts the middle out of an image."""

    def __init__(self, size: Size, interp: int = 2):
        super().__init__(size=size, interp=interp)
        self.size, self.interp = size, interp

    def __call__(self, src: NDArray | np.ndarray) -> NDArray:
        """The part."""
        return center_crop(src, self.size, self.interp)[0]


class HorizontalFlipAug(Augmenter):
    """Exchanges left and right with the probability `p`."""

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """The image, flipped or not."""
        return flipped(src) if random.random() < self.p else src


def flipped(src: NDArray | np.ndarray) -> NDArray:
    """An image with left and right exchanged."""
    return as_image(np.ascontiguousarray(pixels(src)[:, ::-1]), src)


# -- colours ---------------------------------------------------------------------------------------------------------


class BrightnessJitterAug(Augmenter):
    """Multiplies values with a random factor that differs from 1 by at most `brightness`."""

    def __init__(self, brightness: float):
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """Return the image after the change, written as the augmenter's input was given."""
        factor = np.float32(1.0 + random.uniform(-self.brightness, self.brightness))
        return _written(src, pixels(src) * factor)


class ContrastJitterAug(Augmenter):
    """Multiplies distances from the mean grey with a random factor that differs from 1 by at most `contrast`."""

    def __init__(self, contrast: float):
        super().__init__(contrast=contrast)
        self.contrast, self.coef = contrast, array(_GREY)

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """Return the image after the change, written as the augmenter's input was given."""
        factor = np.float32(1.0 + random.uniform(-self.contrast, self.contrast))
        image = pixels(src)
        mean = (image @ self.coef.asnumpy().ravel()).mean(dtype=np.float64)
        return _written(src, image * factor + np.float32((1 - factor) * mean))


class SaturationJitterAug(Augmenter):
    """Multiplies distances from each pixel's grey with a random factor that differs from 1 by at most `saturation`."""

    def __init__(self, saturation: float):
        super().__init__(saturation=saturation)
        self.saturation, self.coef = saturation, array(_GREY)

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """Return the image after the change, written as the augmenter's input was given."""
        factor = np.float32(1.0 + random.uniform(-self.saturation, self.saturation))
        image = pixels(src)
        return _written(src, image * factor + (image @ self.coef.asnumpy().ravel())[..., None] * (1 - factor))


class HueJitterAug(Augmenter):
    """Turns hues by at most `hue` of half a circle, to either side, in NTSC's coordinates."""

    def __init__(self, hue: float):
        super().__init__(hue=hue)
        self.hue, self.tyiq, self.ityiq = hue, _TO_YIQ.copy(), _FROM_YIQ.copy()

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """Another image, float32."""
        angle = random.uniform(-self.hue, self.hue) * np.pi
        turn = np.array([[1, 0, 0], [0, np.cos(angle), -np.sin(angle)], [0, np.sin(angle), np.cos(angle)]])
        matrix = (self.ityiq @ turn @ self.tyiq).T.astype(np.float32)
        return as_image(pixels(src).astype(np.float32) @ matrix, src)


class ColorJitterAug(RandomOrderAug):
    """Changes brightness, contrast and saturation in a random order; those that are 0 are left out.

    Args:
        brightness: as in BrightnessJitterAug.
        contrast: as in ContrastJitterAug.
        saturation: as in SaturationJitterAug.
    """

    def __init__(self, brightness: float, contrast: float, saturation: float):
        rows = (
            (BrightnessJitterAug, brightness),
            (ContrastJitterAug, contrast),
            (SaturationJitterAug, saturation),
        )
        super().__init__([kind(most) for kind, most in rows if most > 0])


class LightingAug(Augmenter):
    """Adds a random step along the directions in which colours vary.

    Args:
        alphastd: the standard deviation of the step along each direction.
        eigval: the variances (3,).
        eigvec: the directions (3, 3).
    """

    def __init__(self, alphastd: float, eigval: np.ndarray, eigvec: np.ndarray):
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd, self.eigval, self.eigvec = alphastd, eigval, eigvec

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """Return the image after the change, written as the augmenter's input was given."""
        numbers = np.random.normal(0, self.alphastd, size=(3,))
        step = np.dot(self.eigvec * numbers, self.eigval).astype(np.float32)
        return _written(src, pixels(src) + step)


@explained_by(color_normalize)
class ColorNormalizeAug(Augmenter):
    """Subtracts a mean from the image and divides by a deviation."""

    def __init__(self, mean: Any, std: Any):
        super().__init__(mean=mean, std=std)
        self.mean, self.std = (
            value if value is None or isinstance(value, NDArray) else array(value) for value in (mean, std)
        )

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """Return the image after the change, written as the augmenter's input was given."""
        return color_normalize(src, self.mean, self.std)


class RandomGrayAug(Augmenter):
    """Makes an image grey, in three channels, with the probability `p`."""

    def __init__(self, p: float):
        super().__init__(p=p)
        self.p, self.mat = p, array(_RANDOM_GREY)

    def __call__(self, src: NDArray | np.ndarray) -> Any:
        """The image, or another one, float32."""
        if random.random() >= self.p:
            return src
        return as_image(pixels(src).astype(np.float32) @ self.mat.asnumpy(), src)


class CastAug(Augmenter):
    """Converts an image to another dtype.

    Args:
        typ: the dtype.
    """

    def __init__(self, typ: str = "float32"):
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src: NDArray | np.ndarray) -> NDArray:
        """The image in the dtype."""
        return as_image(pixels(src).astype(self.typ), src)


# -- all at once -----------------------------------------------------------------------------------------------------


def colour_augmenters(
    brightness: float,
    contrast: float,
    saturation: float,
    hue: float,
    pca_noise: float,
    rand_gray: float,
    mean: Any,
    std: Any,
) -> list[Augmenter]:
    """The augmenters of colours for these parameters. Raises CallError for a mean or deviation that is not an array."""
    chosen: list[Augmenter] = []
    if brightness or contrast or saturation:
        chosen.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        chosen.append(HueJitterAug(hue))
    if pca_noise > 0:
        chosen.append(LightingAug(pca_noise, _EIGENVALUES, _EIGENVECTORS))
    if rand_gray > 0:
        chosen.append(RandomGrayAug(rand_gray))
    for name, value in (("mean", mean), ("std", std)):
        if value is not None and (not isinstance(value, np.ndarray | NDArray) or value.shape[0] not in (1, 3)):
            raise CallError(
                f"The augmenters cannot use this {name}", expected="an array of 1 or 3 numbers", got=repr(value)
            )
    if mean is not None or std is not None:
        chosen.append(ColorNormalizeAug(mean, std))
    return chosen


@checks_flags
def CreateAugmenter(
    data_shape: Sequence[int],
    resize: int = 0,
    rand_crop: bool = False,
    rand_resize: bool = False,
    rand_mirror: bool = False,
    mean: Any = None,
    std: Any = None,
    brightness: float = 0,
    contrast: float = 0,
    saturation: float = 0,
    hue: float = 0,
    pca_noise: float = 0,
    rand_gray: float = 0,
    inter_method: int = 2,
) -> list[Augmenter]:
    """Return the augmenters that make an image (h, w, 3) one of `data_shape`, not yet transposed.

    Args:
        data_shape: (3, height, width).
        resize: the pixels of the shorter edge before the image is cut; 0 not to resize.
        rand_crop: cut anywhere, instead of the middle.
        rand_resize: cut parts of random area and shape; needs `rand_crop`.
        rand_mirror: flip one image in two.
        mean: the mean to subtract, (3,) or (1,); True for ImageNet's.
        std: the deviation to divide by, (3,) or (1,); True for ImageNet's.
        brightness: as in BrightnessJitterAug.
        contrast: as in ContrastJitterAug.
        saturation: as in SaturationJitterAug.
        hue: as in HueJitterAug.
        pca_noise: `alphastd` of LightingAug.
        rand_gray: the share of images that become grey.
        inter_method: the method of resizing, as in `mx.image.resize_short`.

    Raises:
        CallError: `data_shape` is no such shape, or arguments exclude each other.
    """
    chosen: list[Augmenter] = [ResizeAug(resize, inter_method)] if resize > 0 else []
    if len(data_shape) != 3:
        raise CallError("CreateAugmenter needs the shape of an image", expected="(3, height, width)", got=data_shape)
    size = data_shape[2], data_shape[1]
    if rand_resize and not rand_crop:
        raise CallError("rand_resize=True needs rand_crop=True")
    if rand_resize:
        chosen.append(RandomSizedCropAug(size, 0.08, (3.0 / 4.0, 4.0 / 3.0), inter_method))
    else:
        chosen.append((RandomCropAug if rand_crop else CenterCropAug)(size, inter_method))
    if rand_mirror:
        chosen.append(HorizontalFlipAug(0.5))
    chosen.append(CastAug())
    mean, std = (usual.astype(np.float32) if value is True else value for value, usual in ((mean, MEAN), (std, STD)))
    return chosen + colour_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray, mean, std)
