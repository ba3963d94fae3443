"""Whether arrays are nearly equal, with MXNet's tolerances of each dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import jax.numpy as jnp
import numpy as np

from lowering.mx.accepted_types import DType
from lowering.mx.ndarray.array import NDArray

Tolerance = float | Mapping[Any, float] | None
"""A number, numbers by dtype, or None for the default of the dtype."""

_EXACT = {np.dtype(name): 0 for name in ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64")}
_HALF, _SINGLE, _DOUBLE = (np.dtype(name) for name in ("float16", "float32", "float64"))
_BRAIN = np.dtype(jnp.bfloat16)


def default_rtols() -> dict[np.dtype, float]:
    """Relative tolerances by dtype: MXNet's, and one of bfloat16."""
    return {_HALF: 1e-2, _BRAIN: 1e-1, _SINGLE: 1e-4, _DOUBLE: 1e-5, **_EXACT}


def default_atols() -> dict[np.dtype, float]:
    """Return default absolute tolerances by dtype."""
    return {_HALF: 1e-1, _BRAIN: 1e-1, _SINGLE: 1e-3, _DOUBLE: 1e-20, **_EXACT}


def default_numeric_eps() -> dict[np.dtype, float]:
    """Steps of finite differences by dtype: powers of two, so that an addition loses no bits."""
    return {_HALF: 2.0**-6, _SINGLE: 2.0**-9, _DOUBLE: 2.0**-14}


def effective_dtype(dat: Any) -> np.dtype:
    """The dtype whose tolerances hold of an array: its own."""
    return np.dtype(dat.dtype)


def get_tolerance(dat: Any, tol: Tolerance, default_tol: Mapping[Any, float]) -> float:
    """The tolerance of an array: the number given, or that of its dtype in tol, else in default_tol."""
    if isinstance(tol, Number):
        return tol  # pyright: ignore[reportReturnType]
    dtype = effective_dtype(dat)
    by_dtype = {np.dtype(key): value for key, value in (tol or {}).items()}  # pyright: ignore
    return by_dtype.get(dtype, default_tol.get(dtype, default_tol[_DOUBLE]))


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """(rtol, atol) for two arrays or numbers: the wider of both."""
    arrays = [value if hasattr(value, "dtype") else np.asarray(value) for value in (x, y)]
    rtols = (get_tolerance(array, rtol, default_rtols()) for array in arrays)
    atols = (get_tolerance(array, atol, default_atols()) for array in arrays)
    return max(rtols), max(atols)


def get_atol(atol: float | None = None, dtype: DType = _DOUBLE) -> float:
    """The absolute tolerance given, else that of a dtype."""
    return default_atols()[np.dtype(dtype)] if atol is None else atol


def get_rtol(rtol: float | None = None, dtype: DType = _DOUBLE) -> float:
    """The relative tolerance given, else that of a dtype."""
    return default_rtols()[np.dtype(dtype)] if rtol is None else rtol


def get_etol(etol: float | None = None) -> float:
    """The part of the elements that may differ: that given, else 0."""
    return 0 if etol is None else etol


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal, in shape, too."""
    return bool(np.array_equal(np.asarray(a), np.asarray(b)))


def checkShapes(a: Any, b: Any) -> None:
    """Raise AssertionError for two arrays of different shapes."""
    if a.shape != b.shape:
        problem = f"a.shape = {a.shape} and b.shape = {b.shape} are not equal"
        raise AssertionError(np.testing.build_err_msg([a, b], err_msg=problem))


def locationError(a: Any, b: Any, index: Any, names: Sequence[str], maxError: bool = False) -> str:
    """Where two arrays of these names differ, in words."""
    which = "maximum error" if maxError else "error"
    return f"Location of {which}: {index}, {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Whether two NDArrays share their memory: the first is written for the test, and has its values again."""
    array1[:] += 1
    shared = same(array1, array2)
    array1[:] -= 1
    return shared and same(array1, array2)


def _wide(value: Any) -> np.ndarray:
    """Return an array in which differences lose nothing."""
    array = np.asarray(value)
    return array if array.dtype.kind in "biu" else np.asarray(array, np.float64)


def almost_equal(
    a: Any, b: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:  # fmt: skip
    """Whether |a - b| ≤ atol + rtol |b| everywhere, by default with the tolerances of float64. Raises AssertionError
    where use_broadcast is False and the shapes differ."""
    if not use_broadcast:
        check_shapes(a, b, ("a", "b"))
    return bool(np.allclose(_wide(a), _wide(b), get_rtol(rtol), get_atol(atol), equal_nan))


def check_shapes(a: Any, b: Any, names: tuple[str, str]) -> None:
    """Raise AssertionError where shapes differ."""
    if np.shape(a) != np.shape(b):
        raise AssertionError(f"{names[0]} and {names[1]} have shapes {np.shape(a)} and {np.shape(b)}")


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: Any = (10, 10),
) -> None:
    """Raise AssertionError, which names the place of the largest difference, unless |a - b| ≤ atol + rtol |b|.

    rtol, atol: numbers, or numbers by dtype; by default those of the coarser dtype.
    """
    if not use_broadcast:
        check_shapes(a, b, names)
    tolerances = get_tols(a, b, rtol, atol)
    left, right = _wide(a), _wide(b)
    if not np.allclose(left, right, *tolerances, equal_nan):
        shown = f"{names[0]} and {names[1]} differ"
        left, right = np.broadcast_arrays(left, right)
        np.testing.assert_allclose(left, right, *tolerances, equal_nan, err_msg=shown, verbose=True)
        raise AssertionError(shown)


def assert_allclose(a: Any, b: Any, rtol: Tolerance = 1e-07, atol: Tolerance = 0, equal_nan: bool = True) -> None:
    """`assert_almost_equal` with NumPy's tolerances."""
    assert_almost_equal(a, b, rtol, atol, equal_nan=equal_nan)


def assert_almost_equal_ignore_nan(
    a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None, names: tuple[str, str] = ("a", "b")
) -> None:
    """`assert_almost_equal` of the elements that are a number in both."""
    left, right = np.array(a), np.array(b)
    either = np.isnan(left) | np.isnan(right)
    left[either] = right[either] = 0
    assert_almost_equal(left, right, rtol, atol, names)


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    etol: float | None = None,
    names: tuple[str, str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: Any = (10, 10),
) -> None:
    """`assert_almost_equal`, where a part etol of the elements may differ."""
    tolerances = get_tols(a, b, rtol, atol)
    off = 1 - float(np.mean(np.isclose(_wide(a), _wide(b), *tolerances, equal_nan)))
    if off > get_etol(etol):
        assert_almost_equal(a, b, rtol, atol, names, equal_nan)
