"""JAX rules of images as networks take them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from lowering.core.rules import lowers
from symjax_nnvm.ops.image import to_tensor as ops


@lowers("_image_to_tensor")
def _to_tensor(p: Any, data: Array) -> Array:
    return jnp.moveaxis(data.astype(np.float32), -1, -3) / np.float32(255)


def _of_channels(numbers: ops.Floats, dtype: Any) -> np.ndarray:
    """Return a number for each channel, or one for all, as channels of an image."""
    return np.array(numbers, dtype)[:, None, None]


@lowers("_image_normalize")
def _normalize(p: ops.NormalizeParams, data: Array) -> Array:
    wide = jnp.promote_types(data.dtype, np.float32)
    return ((data.astype(wide) - _of_channels(p.mean, wide)) / _of_channels(p.std, wide)).astype(data.dtype)


@lowers("_backward_image_normalize")
def _normalize_gradient(p: ops.NormalizeParams, ograd: Array) -> Array:
    return ograd / _of_channels(p.std, ograd.dtype)
