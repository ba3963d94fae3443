"""JAX rules of turning images."""

from __future__ import annotations

from typing import Any

import jax
from jax import Array, lax

from lowering.core.rules import lowers

for _name, _axis in (("left_right", 1), ("top_bottom", 0)):

    @lowers(f"_image_flip_{_name}")
    def _flip(p: Any, data: Array, axis: int = _axis) -> Array:
        return lax.rev(data, (axis,))

    @lowers(f"_image_random_flip_{_name}", needs=("key",))
    def _random_flip(p: Any, data: Array, *, key: Any, axis: int = _axis) -> Array:
        return lax.select(jax.random.bernoulli(key), lax.rev(data, (axis,)), data)
