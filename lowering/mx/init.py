"""`mx.init`: the initialisers of `lowering.initializer`, which fill arrays here: `init("fc_weight", array)`.

A subclass may define `_init_weight(self, name, arr)`, as in MXNet, which writes `arr[:]`; the methods of this module's
classes are called in that way, too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import lowering.initializer as initializers
from lowering.initializer import InitDesc as InitDesc
from lowering.initializer import alias as alias
from lowering.initializer import register as register
from lowering.initializer.initializer_base import ParameterName
from lowering.messages.migration_hints import unknown_attribute
from lowering.mx.keys import next_key
from lowering.mx.ndarray.array import NDArray, in_current_dialect, like_jax


class FillsArrays:
    """An initialiser that is given an array in place of a shape fills the array."""

    def __init_subclass__(cls) -> None:
        for name, method in list(vars(cls).items()):
            if name.startswith("_init_") and len(inspect.signature(method).parameters) == 3:
                setattr(cls, name, _filling(_by_filling(method)))

    def __call__(self, desc: str, shape: Any, dtype: Any = np.float32, key: jax.Array | int | None = None) -> Any:
        """Return the first value of a parameter. shape: a shape; or an NDArray, which is filled, and None is returned.

        Raises InitializerError.
        """
        first: Any = super().__call__  # pyright: ignore[reportAttributeAccessIssue]
        if not isinstance(shape, NDArray):
            return first(desc, shape, dtype, key)
        name = in_turn(desc)
        name.dtype = shape.dtype
        shape[:] = first(name, shape.shape, shape.dtype, next_key())
        return None

    def set_verbosity(self, verbose: bool = False, print_func: Any = None) -> Any:
        """Itself: what is drawn is not printed."""
        return self


def in_turn(desc: str) -> ParameterName:
    """A parameter that draws the next numbers, whatever its name is: automatic names count up."""
    name = desc if isinstance(desc, ParameterName) else ParameterName(desc)
    name.drawn_as = ""
    return name


def _filling(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method (self, name, shape, key) that returns a value, as one that also fills an array: (self, name,
    arr)."""

    @functools.wraps(method)
    def call(self: Any, desc: str, shape: Any, key: jax.Array | None = None) -> Any:
        if not isinstance(shape, NDArray):
            return method(self, desc, shape, key)
        shape[:] = np.asarray(method(self, desc, shape.shape, next_key()))
        return None

    return call


def _by_filling(method: Callable[..., Any]) -> Callable[..., jax.Array]:
    """Return a method (self, name, arr) that writes an array, as one that returns the value."""

    @functools.wraps(method)
    def value(self: Any, desc: str, shape: tuple[int, ...], key: jax.Array | None) -> jax.Array:
        dtype = desc.dtype if isinstance(desc, ParameterName) else np.float32
        filled = in_current_dialect(like_jax(jax.device_put(np.zeros(shape, dtype))))
        method(self, desc, filled)
        return filled.value

    return value


_METHODS = {name: _filling(method) for name, method in vars(initializers.Initializer).items() if name[:6] == "_init_"}


class Initializer(FillsArrays, initializers.Initializer):
    """Base class of your own initialisers; see `lowering.initializer.Initializer` and this module."""

    for _name, _method in _METHODS.items():
        locals()[_name] = _method


def create(initializer: Any, *args: Any, **kwargs: Any) -> Any:
    """Return an initialiser.

    Args:
        initializer: whatever MXNet takes for one: an object, a name, or JSON of a name and parameters.
        args: parameters for a name.
        kwargs: parameters for a name.

    Raises:
        InitializerError: the name or a parameter is unknown.
    """
    original = initializers.create(initializer, *args, **kwargs)
    if isinstance(original, FillsArrays):
        return original
    name = type(original).__name__
    cls = globals().get(name) or __getattr__(name)
    here = cls.__new__(cls)
    here.__dict__.update(original.__dict__)
    return here


def __getattr__(name: str) -> Any:
    cls = getattr(initializers, name, None)
    if not isinstance(cls, type):
        unknown_attribute("mx.init", name, initializers.__all__)
    filling = {method: _filling(getattr(cls, method)) for method in dir(cls) if method[:6] == "_init_"}
    base = Initializer if issubclass(cls, initializers.Initializer) else FillsArrays
    subclass = type(name, (base, cls), {"__doc__": cls.__doc__, **filling})
    globals()[name] = subclass
    return subclass
