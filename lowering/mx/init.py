"""`mx.init`: the initialisers of `lowering.initializer`, which fill arrays here: `init("fc_weight", array)`.

A subclass may say what a weight starts with in MXNet's way, `_init_weight(self, name, arr)`, which writes `arr[:]`.
"""

from __future__ import annotations

import inspect
from typing import Any

import jax
import numpy as np

import lowering.initializer as initializers
from lowering.initializer import InitDesc as InitDesc
from lowering.initializer import alias as alias
from lowering.initializer import create as create
from lowering.initializer import register as register
from lowering.mx.keys import next_key
from lowering.mx.ndarray.array import NDArray, like_jax
from symjax_nnvm.errors import did_you_mean


class _FillsArrays:
    """An initialiser that is given an array in the place of a shape fills the array."""

    def __call__(self, desc: str, shape: Any, dtype: Any = np.float32, key: jax.Array | int | None = None) -> Any:
        """The first value of a parameter. shape: an NDArray, which is filled, or a shape, as `lowering.initializer`'s.

        Raises InitializerError.
        """
        first: Any = super().__call__  # pyright: ignore[reportAttributeAccessIssue]
        if not isinstance(shape, NDArray):
            return first(desc, shape, dtype, key)
        shape[:] = first(desc, shape.shape, shape.dtype, next_key())
        return None


class Initializer(_FillsArrays, initializers.Initializer):
    """Base class of initialisers of one's own; see `lowering.initializer.Initializer` and this module."""

    def __init_subclass__(cls) -> None:
        for name, method in list(vars(cls).items()):
            if name.startswith("_init_") and len(inspect.signature(method).parameters) == 3:
                setattr(cls, name, _by_filling(method))


def _by_filling(method: Any) -> Any:
    """A method (self, name, arr) that writes an array, as one that returns the value."""

    def value(self: Any, desc: str, shape: tuple[int, ...], key: jax.Array | None) -> jax.Array:
        filled = like_jax(jax.device_put(np.zeros(shape, np.float32)))
        method(self, desc, filled)
        return filled.value

    return value


def __getattr__(name: str) -> Any:
    cls = getattr(initializers, name, None)
    if not isinstance(cls, type):
        raise AttributeError(f"mx.init has no {name!r}. {did_you_mean(name, initializers.__all__)}".rstrip())
    initializer_class = type(name, (_FillsArrays, cls), {"__doc__": cls.__doc__})
    globals()[name] = initializer_class
    return initializer_class
