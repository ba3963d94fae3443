"""Functions that MXNet has NumPy compute: their values come back as arrays of the dialect, without gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lowering.mx.accepted_types import ContextLike
from lowering.mx.ndarray.array import NDArray, host
from lowering.mx.numpy.operators import from_host
from lowering.mx.tape import recording
from symjax_nnvm.errors import GradientError

NAMES = [
    "allclose", "alltrue", "apply_along_axis", "apply_over_axes", "argpartition", "argwhere", "array_equal",
    "array_equiv", "choose", "compress", "corrcoef", "correlate", "count_nonzero", "cov", "digitize", "divmod",
    "extract", "flatnonzero", "float_power", "frexp", "heaviside", "histogram2d", "histogram_bin_edges", "histogramdd",
    "i0", "in1d", "interp", "intersect1d", "isclose", "isin", "ix_", "lexsort", "min_scalar_type", "modf", "msort",
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmedian", "nanmin", "nanpercentile", "nanprod",
    "nanquantile", "ndim", "packbits", "partition", "piecewise", "poly", "polyadd", "polydiv", "polyfit", "polyint",
    "polymul", "polysub", "positive", "promote_types", "ptp", "real", "result_type", "rollaxis", "roots",
    "searchsorted", "select", "setdiff1d", "setxor1d", "signbit", "size", "spacing", "take_along_axis", "trapz",
    "tril_indices_from", "trim_zeros", "triu_indices_from", "union1d", "unpackbits", "unwrap", "vander",
]  # fmt: skip

LINALG = ["cond", "lstsq", "matrix_power", "matrix_rank", "multi_dot", "qr"]
"""Likewise, of `np.linalg`."""

MORE = [
    "cross", "flatnonzero", "gcd", "kron", "logical_and", "logical_or", "logical_xor", "median", "nanmean", "nanstd",
    "nansum", "nanvar", "triu",
]  # fmt: skip
"""Functions of NumPy's that MXNet 1.9.1 does not have."""

_RENAMED: dict[str, Callable[..., Any]] = {
    "alltrue": np.all,
    "in1d": lambda ar1, ar2, *args, **kwargs: np.isin(np.ravel(ar1), ar2, *args, **kwargs),
    "msort": lambda a: np.sort(a, axis=0),
    "trapz": getattr(np, "trapezoid", None) or np.trapz,  # pyright: ignore[reportAttributeAccessIssue]
}
"""Functions that NumPy 2 has no more by this name."""


class NoGradientError(GradientError, ValueError):
    """A function of NumPy's under `record()`. MXNet raises a ValueError."""


def by_numpy(function: Callable[..., Any], name: str, args: Any, kwargs: Any) -> Any:
    """Call a function of NumPy's with arrays of the dialect; it returns arrays of the dialect, and NumPy's own numbers.

    Raises NoGradientError, a ValueError, where one of them is on the tape.
    """
    arrays: list[NDArray] = []
    own_args, own_kwargs = _in_numpy(args, arrays), _in_numpy(kwargs, arrays)
    if recording.is_recording() and any(array.entry is not None for array in arrays):
        problem = f"Falling back to NumPy operator {name} with autograd active is not supported"
        raise NoGradientError(problem, fix="Call it outside of the record section, or on x.detach().")
    if "interpolation" in own_kwargs:  # NumPy's name of it today
        own_kwargs["method"] = own_kwargs.pop("interpolation")
    result = function(*own_args, **own_kwargs)
    return _back(result, arrays[0].ctx) if arrays else result


def _in_numpy(values: Any, arrays: list[NDArray]) -> Any:
    """Return arrays in tuples, lists and dicts in NumPy's memory. arrays: receives them."""
    if isinstance(values, NDArray):
        arrays.append(values)
        return np.array(host(values.cell))
    if isinstance(values, list | tuple):
        return type(values)(_in_numpy(item, arrays) for item in values)
    return {name: _in_numpy(value, arrays) for name, value in values.items()} if isinstance(values, dict) else values


def _back(result: Any, ctx: ContextLike) -> Any:
    if isinstance(result, np.ndarray):
        return from_host(result, ctx) if result.dtype.kind in "biufV" else result
    if isinstance(result, list):
        return [_back(item, ctx) for item in result]
    return tuple(_back(item, ctx) for item in result) if isinstance(result, tuple) else result


def function_of_numpy(name: str, module: Any = np) -> Callable[..., Any]:
    """A function of NumPy's for arrays of the dialect."""
    own = _RENAMED.get(name) or getattr(module, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        return by_numpy(own, name, args, kwargs)

    function.__wrapped__ = own  # pyright: ignore[reportFunctionMemberAccess]  # has the signature
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}`, computed by NumPy, without a gradient."
    return function


__all__ = [*NAMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in NAMES:
        raise AttributeError(f"mx.np.fallback has no function {name!r}", name=name)
    function = globals()[name] = function_of_numpy(name)
    return function
