"""Transforms of images (height, width, channels), as blocks: changed in size, turned, recoloured, made tensors.

Blocks that are one operator of `F.image` are hybrid. What they draw, the operators draw (`mx.random.seed`), or, where
MXNet's blocks call `mx.image`, Python's and NumPy's global generators.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lowering.messages.counts import KindError, checks_flags
from lowering.mx import image, ndarray
from lowering.mx.accepted_types import DType
from lowering.mx.base import numeric_types
from lowering.mx.gluon.block import Block
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.nn import HybridSequential, Sequential
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.ndarray.creation import array
from lowering.mx.shared_arguments import explained_by
from lowering.mx.tape import recording
from symjax_nnvm.errors import ParamError, SymbolTypeError


class Compose(Sequential):
    """Transforms, one after the other.

    Hybrid transforms that follow each other become one hybridised block, except those that resize: each size of an
    image would need its own program.

    Args:
        transforms: a list of blocks.
    """

    @checks_flags
    def __init__(self, transforms: Iterable[Block]):
        super().__init__()
        transforms = list(transforms)
        if not all(callable(transform) for transform in transforms):
            raise KindError("Wrong transforms of Compose", expected="a list of blocks", got=f"{transforms!r:.80}")
        hybrid: list[HybridBlock] = []
        for transform in [*transforms, None]:
            if isinstance(transform, HybridBlock) and not isinstance(transform, Resize | CropResize):
                hybrid.append(transform)
                continue
            if len(hybrid) > 1:
                together = HybridSequential()
                together.add(*hybrid)
                together.hybridize()
                hybrid = [together]
            self.add(*hybrid)
            hybrid = []
            if transform is not None:
                self.add(transform)


class _OperatorBlock(HybridBlock):
    """An operator of `F.image`, by its name, with parameters."""

    _image_operator = ""

    def __init__(self, *args: Any):
        super().__init__()
        self._args = args

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the operator's output."""
        return getattr(F.image, self._image_operator)(x, *self._args)


class Cast(HybridBlock):
    """Converts the input to another dtype.

    Args:
        dtype: the dtype.
    """

    def __init__(self, dtype: DType = "float32"):
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the input in that dtype."""
        return F.cast(x, self._dtype)


class ToTensor(_OperatorBlock):
    """Converts images (h, w, c) or (n, h, w, c) from 0 to 255 to tensors (c, h, w) or (n, c, h, w), float32 from 0 to
    1."""

    _image_operator = "to_tensor"

    def __init__(self) -> None:
        super().__init__()


class Normalize(_OperatorBlock):
    """Subtracts a mean from tensors (c, h, w) or (n, c, h, w) and divides by a deviation.

    Args:
        mean: a number, or one for each channel.
        std: a number, or one for each channel.
    """

    _image_operator = "normalize"

    def __init__(self, mean: Any = 0.0, std: Any = 1.0):
        super().__init__(mean, std)


class Rotate(Block):
    """Turns float32 tensors (c, h, w) or (n, c, h, w), as `mx.image.imrotate` does.

    Args:
        rotation_degrees: the angle in degrees.
        zoom_in: enlarge until no corner is empty.
        zoom_out: shrink until the whole image is visible.

    Raises:
        SymbolTypeError: the input is not a float32 tensor.
    """

    def __init__(self, rotation_degrees: float, zoom_in: bool = False, zoom_out: bool = False):
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: Any) -> Any:
        """Return the tensors turned."""
        return image.imrotate(_float32(x), *self._args)


@explained_by(Rotate)
class RandomRotation(Block):
    """Turns float32 tensors by a random angle, with a probability, as `mx.image.random_rotate` does.

    Args:
        angle_limits: the lowest and the highest angle in degrees.
        rotate_with_proba: the probability.

    Raises:
        ParamError: the limits are not in order, or the probability is none; the error is a ValueError, too.
        SymbolTypeError: the input is not a float32 tensor.
    """

    def __init__(
        self, angle_limits: Any, zoom_in: bool = False, zoom_out: bool = False, rotate_with_proba: float = 1.0
    ):
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ParamError("`angle_limits` must be an ordered tuple", got=angle_limits)
        if not 0 <= rotate_with_proba <= 1:
            raise ParamError("Probability of rotating the image should be between 0 and 1", got=rotate_with_proba)
        self._args = (angle_limits, zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: Any) -> Any:
        """Return the tensors turned, or as they are."""
        if np.random.random() > self._rotate_with_proba:
            return x
        return image.random_rotate(_float32(x), *self._args)


def _float32(tensor: Any) -> Any:
    if tensor.dtype is not np.float32:
        raise SymbolTypeError("This transformation only supports float32. Consider calling it after ToTensor")
    return tensor


class _Crop(Block):
    """Takes a part of an image (h, w, c), in a size (width, height), which a number makes square."""

    _function: Callable[..., Any]

    def __init__(self, size: Any, *args: Any):
        super().__init__()
        self._args = ((size, size) if isinstance(size, numeric_types) else size, *args)

    def forward(self, x: Any) -> Any:
        """Return the part."""
        return type(self)._function(x, *self._args)[0]


class RandomResizedCrop(_Crop):
    """A part of an image of random area and shape, resized to `size`, as by `mx.image.random_size_crop`.

    Args:
        size: (width, height) of the result, or a number for both.
        scale: the smallest and the largest part of the area.
        ratio: the smallest and the largest width for a height of 1.
        interpolation: the method of resizing, as in `mx.image.resize_short`.
    """

    _function = staticmethod(image.random_size_crop)

    def __init__(
        self,
        size: Any,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: int = 1,
    ):
        super().__init__(size, scale, ratio, interpolation)


@explained_by(RandomResizedCrop)
class CenterCrop(_Crop):
    """The middle of an image, enlarged where the image is smaller than `size`, as by `mx.image.center_crop`."""

    _function = staticmethod(image.center_crop)

    def __init__(self, size: Any, interpolation: int = 1):
        super().__init__(size, interpolation)


class CropResize(HybridBlock):
    """A fixed part of images (h, w, c) or (n, h, w, c), resized where there is a size.

    Args:
        x: the left edge of the part.
        y: its upper edge.
        width: its width.
        height: its height.
        size: (width, height) of the result, or a number for both; None not to resize.
        interpolation: the method of resizing, as in `mx.image.resize_short`.
    """

    def __init__(self, x: int, y: int, width: int, height: int, size: Any = None, interpolation: int | None = None):
        super().__init__()
        self._place = (x, y, width, height)
        self._size, self._interpolation = size, 1 if interpolation is None else interpolation

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the part."""
        part = F.image.crop(x, *self._place)
        return _resized(F, part, self._size, False, self._interpolation) if self._size else part


class Resize(HybridBlock):
    """Images (h, w, c) or (n, h, w, c) in another size.

    Arrays are resized by `mx.image.imresize`; symbols, and arrays on the tape, by the operator, whose uint8 pixels may
    differ by one.

    Args:
        size: (width, height); or a number for a square, with `keep_ratio` for the shorter edge.
        keep_ratio: keep the proportions.
        interpolation: the method of resizing, as in `mx.image.resize_short`.
    """

    def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1):
        super().__init__()
        self._args = size, keep_ratio, interpolation

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """Return the images in that size."""
        return _resized(F, x, *self._args)


def _resized(F: Any, images: Any, size: Any, keep_ratio: bool, interpolation: int) -> Any:
    sizes: list[Any] = list(size) if isinstance(size, list | tuple) else [size]
    on_tape = F is not ndarray or (recording.is_recording() and images.entry is not None)
    is_size = len(sizes) in (1, 2) and all(isinstance(side, numeric_types) for side in sizes) and min(sizes) >= 1
    if on_tape or not is_size or images.ndim not in (3, 4):  # which the operator refuses in words
        return F.image.resize(images, size, keep_ratio, interpolation)
    height, width = images.shape[-3:-1]
    new = sizes[0], sizes[-1]
    if len(sizes) == 1 and keep_ratio:
        new = (sizes[0], height * sizes[0] // width) if height > width else (width * sizes[0] // height, sizes[0])
    if images.ndim == 3:
        return image.imresize(images, *new, interpolation)
    values = np.stack([image.imresize(pixels, *new, interpolation).asnumpy() for pixels in images.asnumpy()])
    return array(values, images.context, values.dtype)


class RandomFlipLeftRight(_OperatorBlock):
    """Exchanges left and right of every second image on average."""

    _image_operator = "random_flip_left_right"

    def __init__(self) -> None:
        super().__init__()


class RandomFlipTopBottom(_OperatorBlock):
    """Exchanges top and bottom of every second image on average."""

    _image_operator = "random_flip_top_bottom"

    def __init__(self) -> None:
        super().__init__()


class _Jitter(_OperatorBlock):
    """Multiplies a property of images with a factor between 1 - value, or 0, and 1 + value."""

    @checks_flags
    def __init__(self, value: float):
        super().__init__(max(0, 1 - value), 1 + value)


class RandomBrightness(_Jitter):
    """Makes images darker or brighter by a random factor.

    Args:
        brightness: how far the factor may be from 1.
    """

    _image_operator = "random_brightness"

    def __init__(self, brightness: float):
        super().__init__(brightness)


class RandomContrast(_Jitter):
    """Gives images less or more contrast by a random factor.

    Args:
        contrast: how far the factor may be from 1.
    """

    _image_operator = "random_contrast"

    def __init__(self, contrast: float):
        super().__init__(contrast)


class RandomSaturation(_Jitter):
    """Makes colours paler or stronger by a random factor.

    Args:
        saturation: how far the factor may be from 1.
    """

    _image_operator = "random_saturation"

    def __init__(self, saturation: float):
        super().__init__(saturation)


class RandomHue(_Jitter):
    """Turns colours about the circle of hues by a random factor.

    Args:
        hue: how far the factor may be from 1.
    """

    _image_operator = "random_hue"

    def __init__(self, hue: float):
        super().__init__(hue)


@explained_by(RandomBrightness, RandomContrast, RandomSaturation, RandomHue)
class RandomColorJitter(_OperatorBlock):
    """Changes brightness, contrast, saturation and hue at random, in a random order."""

    _image_operator = "random_color_jitter"

    def __init__(self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0):
        super().__init__(brightness, contrast, saturation, hue)


class RandomLighting(_OperatorBlock):
    """Adds noise along the principal colours of ImageNet.

    Args:
        alpha: the standard deviation of the noise.
    """

    _image_operator = "random_lighting"

    def __init__(self, alpha: float):
        super().__init__(alpha)


class RandomApply(Sequential):
    """Applies a transform with a probability that Python's global generator decides.

    Args:
        transforms: the transform.
        p: the probability.
    """

    def __init__(self, transforms: Any, p: float = 0.5):
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: Any) -> Any:
        """Return the transform's output, or the input."""
        return x if self.p < random.random() else self.transforms(x)
