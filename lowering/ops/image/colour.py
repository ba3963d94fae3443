"""JAX rules of changed colours. All compute in float32 at least; between two changes bytes are bytes, as in MXNet."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from lowering.core.rules import lowers
from lowering.jax_casts import cast
from lowering.ops.wide import wide
from symjax_nnvm.ops.image import colour as ops

_LEAST = np.finfo(np.float32).eps
"""Red, green and blue that differ by less have no hue."""


def _as(values: Array, like: Array) -> Array:
    """Return values in the dtype of an image: cut off in whole numbers, bytes at 0 and 255."""
    return cast(jnp.clip(values, 0, 255) if like.dtype == np.uint8 else values, like.dtype)


def _grey(image: Array, weights: np.ndarray) -> Array:
    """Return the grey (h, w, 1) of an image of 3 channels, float32 at least."""
    return jnp.sum(image * weights.astype(image.dtype), axis=2, keepdims=True)


# -- changes by a number ---------------------------------------------------------------------------------------------


def _brightened(data: Array, factor: Array) -> Array:
    return _as(wide(data) * factor, data)


def _contrasted(data: Array, factor: Array) -> Array:
    image = wide(data)
    grey = image if data.shape[2] == 1 else _grey(image, ops.GREY)
    mean = jnp.sum(grey) / (data.shape[0] * data.shape[1])
    return _as(image * factor + (1 - factor) * mean, data)


def _saturated(data: Array, factor: Array) -> Array:
    if data.shape[2] == 1:
        return data
    image = wide(data)
    return _as(_grey(image, ops.BLUE_ALONE) * (1 - factor) + image * factor, data)


def _turned(data: Array, part: Array) -> Array:
    """Return the image with its hue turned by a part of the circle; lightness and saturation stay."""
    if data.shape[2] == 1:
        return data
    image = wide(data) / 255
    red, green, blue = (image[..., i] for i in range(3))
    most, least = jnp.max(image, axis=2), jnp.min(image, axis=2)
    spread = most - least
    has_hue = spread > _LEAST
    divisor = jnp.where(has_hue, spread, 1)
    hue = jnp.where(
        most == red,
        (green - blue) / divisor,
        jnp.where(most == green, (blue - red) / divisor + 2, (red - green) / divisor + 4),
    )
    hue = jnp.mod(jnp.where(has_hue, hue, 0) + 6 * part, 6)

    def channel(place: int) -> Array:
        """Return a colour, which is strongest where the hue is at its place on the circle."""
        distance = jnp.abs(jnp.mod(hue - place + 3, 6) - 3)
        return least + spread * jnp.clip(2 - distance, 0, 1)

    return _as(jnp.stack([channel(0), channel(2), channel(4)], axis=2) * 255, data)


def _lit(data: Array, alpha: Array) -> Array:
    if data.shape[2] == 1:
        return data
    image = wide(data)
    return _as(image + jnp.sum(ops.PCA.astype(image.dtype) * alpha.astype(image.dtype), axis=1), data)


# -- the operators ---------------------------------------------------------------------------------------------------


@lowers("_image_adjust_lighting")
def _adjust_lighting(p: ops.AdjustLightingParams, data: Array) -> Array:
    return _lit(data, jnp.asarray(p.alpha))


@lowers("_image_random_lighting", needs=("key",))
def _random_lighting(p: ops.RandomLightingParams, data: Array, *, key: Any) -> Array:
    return _lit(data, jax.random.normal(key, (3,), np.float32) * np.float32(p.alpha_std))


def _between(key: Any, low: float, high: float) -> Array:
    """Return a number drawn between two, float32."""
    return np.float32(low) + np.float32(high - low) * jax.random.uniform(key, (), np.float32)


_Change = Callable[[Array, Array], Array]

_CHANGES: dict[str, _Change] = {
    "brightness": _brightened,
    "contrast": _contrasted,
    "saturation": _saturated,
    "hue": _turned,
}


def _changed(change: _Change, p: ops.FactorParams, data: Array, *, key: Any) -> Array:
    return change(data, _between(key, p.min_factor, p.max_factor))


for _name, _change in _CHANGES.items():
    lowers(f"_image_random_{_name}", needs=("key",))(partial(_changed, _change))


@lowers("_image_random_color_jitter", needs=("key",))
def _random_color_jitter(p: ops.RandomColorJitterParams, data: Array, *, key: Any) -> Array:
    of_order, of_numbers = jax.random.split(key)
    branches: list[Callable[[Array], Array]] = []
    for (name, change), one in zip(_CHANGES.items(), jax.random.split(of_numbers, len(_CHANGES)), strict=True):
        most = getattr(p, name)
        if most > 0:
            number = _between(one, -most, most) + (0 if name == "hue" else 1)
            branches.append(partial(lambda image, change, number: change(image, number), change=change, number=number))
    if not branches:
        return data
    order = jax.random.permutation(of_order, len(branches))
    for i in range(len(branches)):
        data = lax.switch(order[i], branches, data)
    return data
