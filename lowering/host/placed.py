"""NumPy's arrays as JAX's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.sharding import Sharding, SingleDeviceSharding

from lowering.native.unpromised import put


def placed(arrays: Sequence[np.ndarray], place: Any) -> Sequence[jax.Array]:
    """NumPy's arrays as JAX's. `jax.device_put` takes five times as long.

    place: a device or a sharding that they are bound to; None: to none.
    """
    config: Any = jax.config
    kinds = [_kind(array.shape, array.dtype, config.jax_enable_x64) for array in arrays]
    by_default = place is None and config.jax_default_device is not None
    if None not in kinds and not by_default and not isinstance(place, Sharding):
        result = put(kinds, arrays, _on(place), place is not None)
        if result is not None:
            return result
    return jax.device_put(arrays, place)


def placed_one(array: Any, place: Any) -> jax.Array:
    """An array or a number of NumPy's as JAX's."""
    return placed([np.asarray(array)], place)[0]


@lru_cache(4096)
def _kind(shape: tuple[int, ...], dtype: np.dtype, wide: bool) -> Any:
    """Return the type of JAX's array; None where JAX has another dtype. wide: whether it has 64 bits."""
    return ShapedArray(shape, dtype) if jax.dtypes.canonicalize_dtype(dtype) == dtype else None


@cache
def _on(device: Any) -> SingleDeviceSharding:
    """Return where arrays are; those that may go to any device are on this process's first."""
    return SingleDeviceSharding(jax.local_devices()[0] if device is None else device)
