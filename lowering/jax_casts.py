"""Numbers in another dtype: floats as integers the way MXNet has them, and numbers of 64 bits where JAX has 32."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from symjax_nnvm.errors import NNVMError
from symjax_nnvm.ir.casts import cast as numpy_cast
from symjax_nnvm.ir.casts import integers_in_between

SWITCH_ON_64_BITS = (
    "Switch 64 bits on: the environment variable JAX_ENABLE_X64=1, or a block `with jax.enable_x64(True):`."
)


class TooWideError(NNVMError, OverflowError):
    """Reports a number that 32 bits do not hold, in an array of 64 bits where JAX's 64-bit mode is off."""

    def __init__(self, problem: str, **facts: Any):
        super().__init__(problem, **facts, fix=SWITCH_ON_64_BITS)
        self._problem = problem

    def at(self, op: object, node: object) -> TooWideError:
        """Return the same error, which names an operator and a node."""
        return TooWideError(self._problem, op=op, node=node)


def cast(x: Array, dtype: Any) -> Array:
    """Return an array in a dtype that JAX holds it in, floats as integers the way MXNet 1.9.1 casts them on x86.

    `symjax_nnvm/ir/casts.py` has the rules. XLA's own cast has the nearest number of the dtype, and 0 for NaN.
    """
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    between = integers_in_between(x.dtype, dtype)
    if between is None:
        return x.astype(dtype)
    info = np.iinfo(between)
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    low, high = (jnp.asarray(bound, wide.dtype) for bound in (float(info.min), -float(info.min)))
    inside = (wide >= low) & (wide < high)
    return lax.select(inside, wide.astype(between), lax.full_like(wide, info.min, between)).astype(dtype)


def is_narrowed(dtype: np.dtype) -> bool:
    """Return whether JAX has 32 bits for a dtype of 64, since its 64-bit mode is off."""
    return dtype.itemsize == 8 and dtype.kind in "iuf" and jax.dtypes.canonicalize_dtype(dtype) != dtype


def held(value: np.ndarray, dtype: np.dtype | None = None, name: str | None = None) -> np.ndarray:
    """Return an array of NumPy's in a dtype, by default its own, as JAX holds it: 64 bits in 32 where they are off.

    name: the name of the input, for the message. Raises TooWideError for an integer that 32 bits do not hold, and for a
    number that would become infinite.
    """
    target = value.dtype if dtype is None else dtype
    array = value if dtype is None else numpy_cast(value, target)
    if target.itemsize < 8:
        return array
    narrow = jax.dtypes.canonicalize_dtype(target)
    if narrow == target or target.kind not in "iuf":
        return array.astype(narrow, copy=False)
    with np.errstate(over="ignore"):
        result = array.astype(narrow)
    lost = np.isinf(result) if target.kind == "f" else result != array
    if lost.any() and (lost := lost & np.isfinite(array)).any():
        raise _too_wide(array[lost].flat[0], narrow, input=name, got=target.name)
    return result


def require_held(value: Any, name: str | None = None) -> Any:
    """Return a value as it is. Raises TooWideError for an array of NumPy's with a number that JAX would change."""
    if isinstance(value, np.ndarray) and is_narrowed(value.dtype):
        held(value, name=name)
    return value


def written(value: Any, dtype: np.dtype) -> Any:
    """Return a copy of an array of JAX or NumPy in the dtype of the array that it is written to.

    Raises TooWideError for an integer that int32 does not hold where 64 bits are off: the caller may have wanted 64.
    """
    if isinstance(value, jax.Array):
        return cast(value, dtype)
    if value.dtype.kind in "iu" and dtype.kind in "iu" and is_narrowed(_wide(dtype)):
        result = value.astype(dtype)
        if (result != value).any():
            raise _too_wide(value[result != value].flat[0], dtype)
        return result
    return numpy_cast(value, dtype)


def _wide(dtype: np.dtype) -> np.dtype:
    """Return the dtype of 64 bits that is held in one of 32; narrower ones as they are."""
    return np.dtype(f"{dtype.kind}8") if dtype.itemsize == 4 else dtype


def number_as(number: float, dtype: Any) -> np.ndarray:
    """Return a number in the dtype of the array that it is combined with, as in C.

    Raises TooWideError for a whole number that int32 does not hold where 64 bits are off; OverflowError or ValueError
    for infinity and NaN in place of an integer.
    """
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        whole, info = int(number), np.iinfo(dtype)
        if is_narrowed(_wide(dtype)) and not info.min <= whole <= info.max:
            raise _too_wide(whole, dtype)
        if dtype.itemsize == 8 and isinstance(number, int) and abs(number) < 2**63:  # a float would lose digits
            return np.asarray(number, dtype)
    return numpy_cast(np.asarray(number, np.float64), dtype)


def _too_wide(number: Any, narrow: np.dtype, **facts: Any) -> TooWideError:
    return TooWideError(f"{narrow.name} does not hold {number}, and JAX's 64-bit mode is off", **facts)
