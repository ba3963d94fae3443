"""`npx.image`: operators on images, and the functions of `mx.image`."""

from __future__ import annotations

from typing import Any

from lowering.mx import image as _image
from lowering.mx.numpy.operators import EAGER as _EAGER
from lowering.mx.numpy_extension.functions import extension as _extension

_operators = _extension("mx.npx", _EAGER).image


def __getattr__(name: str) -> Any:
    return getattr(_operators if name in dir(_operators) else _image, name)
