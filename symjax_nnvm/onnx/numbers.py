"""Dtypes of arithmetic: what MXNet computes with whole numbers, and runtimes with dtypes that they have kernels for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from symjax_nnvm.ir.casts import cast
from symjax_nnvm.ir.types import DType, is_float
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.tensors import Tensor

_NARROW = frozenset({"int8", "uint8", "int16", "bool"})


def narrow(dtype: DType) -> bool:
    """Return whether runtimes have no arithmetic of a dtype: few have any of less than 32 bits."""
    return dtype in _NARROW


def in_int32(g: Builder, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """A function of numbers; of narrow whole numbers it is calculated in int32, whose last bits are the result's."""
    dtype = inputs[0].dtype
    if not narrow(dtype):
        return function(*inputs)
    return g.cast(function(*(g.cast(x, "int32") for x in inputs)), dtype)


def in_float(g: Builder, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """A function of real numbers; of whole ones it is calculated in float32 and truncated, as MXNet does."""
    dtype = inputs[0].dtype
    if is_float(dtype):
        return function(*inputs)
    return g.cast(function(*(g.cast(x, "float32") for x in inputs)), dtype)


def wide(g: Builder, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Return a function made of several steps, each of which would lose digits in half precision."""
    dtype = inputs[0].dtype
    if dtype not in ("float16", "bfloat16"):
        return function(*inputs)
    return g.cast(function(*(g.cast(x, "float32") for x in inputs)), dtype)


def truth(g: Builder, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Return a function with a truth value, as 1 and 0 of the dtype of its first input."""
    dtype = inputs[0].dtype
    wide = [g.cast(x, "int32") for x in inputs] if narrow(dtype) else inputs
    return g.cast(function(*wide), dtype)


def whole(number: float, dtype: DType) -> np.ndarray:
    """Return a number in a dtype; in an integer one only its whole part, as `cast` has it."""
    return np.asarray(number) if is_float(dtype) else cast(np.asarray(number, np.float64), np.dtype(dtype))
