"""Colours of images (height, width, channels), changed by numbers or by chance, as the light of a scene changes them.

Factors and noise are drawn for the whole image. Images of one channel have no saturation, hue or colour of light.
"""

from __future__ import annotations

import numpy as np

from symjax_nnvm.ir.params import Params, param
from symjax_nnvm.ir.register import register_op
from symjax_nnvm.ir.rules.costs import as_much_as, per_output
from symjax_nnvm.ops.image.flip import UNCHANGED
from symjax_nnvm.ops.image.shapes import one_image

Floats = tuple[float, ...]

GREY = np.array([0.299, 0.587, 0.114], np.float32)
"""What red, green and blue are to the eye's grey (ITU-R BT.601)."""

BLUE_ALONE = np.array([0.0, 0.0, 0.114], np.float32)
"""The grey of a pixel where saturation changes: MXNet forgets red and green there."""

PCA = np.array([55.46, 4.794, 1.148]) * [
    [-0.5675, 0.7192, 0.4009],
    [-0.5808, -0.0045, -0.8140],
    [-0.5836, -0.6948, 0.4203],
]
"""Eigenvectors of ImageNet's colours (rows: red, green, blue), each times its eigenvalue; of AlexNet's paper."""

ONE_CHANNEL = "an image of one channel stays as it is; MXNet's result is what the memory held"

_WHOLE = "Whole numbers are cut off, bytes at 0 and 255, too."


class AdjustLightingParams(Params):
    alpha: Floats = param(doc="how far along each of the 3 directions in which ImageNet's colours vary")

    def check(self) -> str | None:
        if len(self.alpha) != 3:
            return f"Parameter alpha={self.alpha}: expected 3 numbers"
        return None


register_op(
    "_image_adjust_lighting",
    aliases=("_npx__image_adjust_lighting",),
    params=AdjustLightingParams,
    infer_shape=one_image,
    gradient=lambda node, ograds: [ograds[0]],
    inplace=((0, 0),),
    flops=per_output(1),
    deviation=ONE_CHANNEL,
    doc="An image (h, w, c) with a step along the directions in which ImageNet's colours vary added to each pixel. "
    + _WHOLE,
)


class RandomLightingParams(Params):
    alpha_std: float = param(0.05, doc="standard deviation of the three numbers, around 0")


class FactorParams(Params):
    min_factor: float = param(ge=0, doc="smallest factor")
    max_factor: float = param(ge=0, doc="largest factor")


class RandomColorJitterParams(Params):
    brightness: float = param(doc="the largest distance of the factor of brightness from 1; 0 or less: none")
    contrast: float = param(doc="the same of contrast")
    saturation: float = param(doc="the same of saturation")
    hue: float = param(doc="the largest turn of the hue to either side, a share of the circle; 0 or less: none")


for _name, _params, _flops, _doc in (
    ("lighting", RandomLightingParams, 1, "what adjust_lighting adds for three numbers drawn around 0"),
    ("brightness", FactorParams, 1, "brightness times a factor"),
    ("contrast", FactorParams, 4, "the distance of each value from the mean grey times a factor"),
    ("saturation", FactorParams, 4, "the distance of each pixel from 0.114 of its blue, MXNet's grey, times a factor"),
    ("hue", FactorParams, 20, "hue, between lightness and saturation, turned by a part of the circle"),
    ("color_jitter", RandomColorJitterParams, 30, "brightness, contrast, saturation and hue changed, in any order"),
):
    register_op(
        f"_image_random_{_name}",
        aliases=(f"_npx__image_random_{_name}",),
        params=_params,
        infer_shape=one_image,
        gradient=lambda node, ograds: [ograds[0]],
        flops=per_output(_flops),
        workspace=as_much_as("input", 2),
        draws="always",
        deviation=ONE_CHANNEL if _name in ("lighting", "hue", "color_jitter") else (),
        not_derivative=UNCHANGED,
        doc=f"An image (h, w, c) with {_doc}. {_WHOLE} The gradient is that of an image that stayed as it was, as in "
        "MXNet.",
    )
