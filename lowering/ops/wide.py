"""Half precision is computed in float32: sums keep their digits, and positions are right to a part of a pixel."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array


def wide_dtype(dtype: Any) -> Any:
    """Return the dtype to compute in: float32 for half precision and whole numbers, else the same."""
    return jnp.promote_types(dtype, jnp.float32)


def wide(x: Array) -> Array:
    """Return an array in the dtype to compute in."""
    return x.astype(wide_dtype(x.dtype))
