"""Floats as integers: truncated, and what does not fit as MXNet 1.9.1 and NumPy have it on x86, on any processor."""

from __future__ import annotations

import numpy as np


def integers_in_between(source: np.dtype, target: np.dtype) -> np.dtype | None:
    """Return the integers that a processor casts floats to before their low bits are taken.

    None where no float is cast to an integer, and for unsigned ones of 32 and 64 bits, which MXNet lacks.
    """
    if target.kind not in "iu" or (target.kind == "u" and target.itemsize > 2):
        return None
    if source.kind != "f" and source.name != "bfloat16":
        return None
    return np.dtype(np.int64 if target.itemsize == 8 else np.int32)


def cast(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a copy of an array in a dtype.

    A float that int32 (for int64: int64) does not hold, NaN too, is its least number, of which narrower integers have
    the low bits: 256.0 is 0 in uint8, -1.0 is 255, 3e9 is -2147483648 in int32 and 0 in int8.
    """
    if value.dtype == dtype:
        return value.copy()
    between = integers_in_between(value.dtype, dtype)
    if between is None:
        with np.errstate(over="ignore"):  # of floats beyond those of the dtype, which are infinite there
            return value.astype(dtype)
    floats = value.astype(np.float32) if value.dtype.itemsize < 4 else value
    least = float(np.iinfo(between).min)
    if floats.size and not (floats.min() >= least and floats.max() < -least):
        floats = np.where((floats >= least) & (floats < -least), floats, least)
    return floats.astype(between).astype(dtype)
