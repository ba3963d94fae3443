"""`ImageTransform`: a record becomes a sample, an image as a network takes it, and its label."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from lowering.data.augment import augment
from lowering.data.augmenter_parameters import Augmentation, augmentation
from lowering.data.stable_draws import Draws
from symjax_nnvm.errors import NNVMError, TrainingError
from symjax_nnvm.io.files import StrPath
from symjax_nnvm.mxnet.images import decode_bgr, swap_red_and_blue
from symjax_nnvm.mxnet.params_files import load_arrays
from symjax_nnvm.mxnet.record_format import IRHeader, unpack


class ImageTransform:
    """A function of a record's bytes: {data_name: (c, h, w), label_name: () or (k,)}, both float32 but for `dtype`.

    parameters: the fields of `lowering.data.Augmentation`, with MXNet's names; data_shape among them. With Grain,
    `grain.MapDataset.source(file).seed(0).random_map(ImageTransform(data_shape=…, rand_crop=True))`, or `.map` where
    nothing is random. Raises TrainingError, CallError, RecordFormatError, MissingExtraError.
    """

    def __init__(
        self, *, label_width: int = 1, data_name: str = "data", label_name: str = "softmax_label", **parameters: Any
    ):
        self.parameters: Augmentation = augmentation(parameters)
        self.label_width = label_width
        self.data_name, self.label_name = data_name, label_name
        _ = self._normal  # an error now, and not in the first thread

    def __call__(self, record: bytes, rng: np.random.Generator | None = None) -> dict[str, np.ndarray]:
        """Return the sample. rng: where random numbers come from; needed where anything is random."""
        header, data = unpack(record)
        return self.sample(header, data, None if rng is None else Draws(rng.bit_generator), "The record")

    @property
    def random(self) -> bool:
        """Return whether the transform draws random numbers."""
        p = self.parameters
        crop = p.rand_crop or p.random_resized_crop or p.min_crop_size != p.max_crop_size
        affine = p.affine and (
            (p.max_rotate_angle > 0 and p.rotate <= 0 and not p.rotate_list)
            or len(p.rotate_list) > 1
            or p.max_shear_ratio > 0
            or p.min_random_scale != p.max_random_scale
            or p.aspect_ratios[0] != p.aspect_ratios[1]
        )
        colours = p.brightness, p.contrast, p.saturation, p.random_h, p.random_s, p.random_l, p.pca_noise
        light = p.max_random_contrast, p.max_random_illumination
        return bool(crop or affine or any(colours) or any(light) or p.rand_mirror or p.inter_method == 10)

    def sample(self, header: IRHeader, data: bytes, draws: Draws | None, where: str) -> dict[str, np.ndarray]:
        """Return the sample of a record whose header has been read. where: the record's name in errors."""
        p = self.parameters
        if draws is None:
            if self.random:
                fix = "Use Grain's random_map, or pass one: transform(record, numpy.random.default_rng(seed))."
                raise TrainingError("A random transform needs a generator of random numbers", fix=fix)
            draws = Draws(np.random.PCG64(0))
        if np.size(header.label) != self.label_width:
            raise TrainingError(
                f"{where} does not have label_width labels",
                param="label_width",
                expected=self.label_width,
                got=np.size(header.label),
                fix=f"label_width={np.size(header.label)}, or path_imglist= with other labels.",
            )
        image = decode_bgr(data, p.data_shape[0], f"{where}, image {header.id},")
        try:
            image = augment(image, p, draws)
        except TrainingError as error:
            raise TrainingError(f"{where}: {error}") from None
        label = np.asarray(header.label, np.float32)
        return {
            self.data_name: self._normalised(image, draws),
            self.label_name: label.reshape(() if self.label_width == 1 else -1),
        }

    def _normalised(self, image: np.ndarray, draws: Draws) -> np.ndarray:
        """Return planes of red, green and blue, mirrored and normalised, in MXNet's order of operations."""
        p = self.parameters
        mirrored = (p.rand_mirror and draws.uniform() < 0.5) or p.mirror
        planes = planes_of(image)
        mean, std = self._normal
        if p.dtype is None or np.dtype(p.dtype) == np.float32:
            contrast = np.float32(draws.uniform(-p.max_random_contrast, p.max_random_contrast) + 1)
            light = np.float32(draws.uniform(-p.max_random_illumination, p.max_random_illumination))
            scale = np.float32(p.scale)
            planes = (planes.astype(np.float32) - mean) * (contrast * scale / std) + light * scale / std
        elif np.dtype(p.dtype) == np.int8:
            planes = np.clip(planes - _rounded(mean), -128, 127).astype(np.int8)
        return np.ascontiguousarray(planes[..., ::-1] if mirrored else planes)

    @cached_property
    def _normal(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (c, 1, 1), or the mean image (c, h, w), and the standard deviation (c, 1, 1)."""
        p = self.parameters
        channels = p.data_shape[0]
        mean = np.array((p.mean_r, p.mean_g, p.mean_b, p.mean_a)[:channels], np.float32).reshape(-1, 1, 1)
        std = np.array((p.std_r, p.std_g, p.std_b, p.std_a)[:channels], np.float32).reshape(-1, 1, 1)
        return (mean_image(p.mean_img, p.data_shape) if p.mean_img else mean), std


def _rounded(mean: np.ndarray) -> np.ndarray:
    """Return numbers rounded to whole numbers, halves away from 0, as C rounds."""
    return (np.sign(mean) * np.floor(np.abs(mean) + np.float32(0.5))).astype(np.int32)


def planes_of(image: np.ndarray) -> np.ndarray:
    """Return planes (c, h, w) of red, green and blue of an image as OpenCV has it; alpha stays the last."""
    return swap_red_and_blue(image).transpose(2, 0, 1)


def mean_image(path: StrPath, shape: tuple[int, ...]) -> np.ndarray:
    """Return the one array of a file, float32. Raises TrainingError unless it has this shape."""
    try:
        arrays = load_arrays(path)
    except NNVMError as error:
        fix = "ImageRecordIter makes the file if it does not exist. Or use mean_r=, mean_g=, mean_b=."
        raise TrainingError(f"The mean image cannot be read: {error}", param="mean_img", fix=fix) from error
    values = list(arrays.values()) if isinstance(arrays, dict) else arrays
    if len(values) != 1 or values[0].shape != shape:
        got = [value.shape for value in values[:8]]
        raise TrainingError("The file holds no mean image", param="mean_img", expected=f"one array {shape}", got=got)
    return np.asarray(values[0], np.float32)
