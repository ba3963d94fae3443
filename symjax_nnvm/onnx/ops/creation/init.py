"""ONNX forms of the operators that make arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symjax_nnvm.ir.types import is_float
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, onnx_table
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.creation import init as ops


def _filled(g: Builder, value: float) -> Tensor:
    if g.outs[0].shapes is None:
        g.refuse("its shape cannot be inferred", "Pass shape= where the array is made.")
    return g.fill(value, g.outs[0])


onnx_table(
    {
        "_zeros": lambda g: _filled(g, 0),
        "_zeros_without_dtype": lambda g: _filled(g, 0),
        "_ones": lambda g: _filled(g, 1),
        "_npi_zeros": lambda g: _filled(g, 0),
        "_npi_ones": lambda g: _filled(g, 1),
        "zeros_like": lambda g, data: _filled(g, 0),
        "ones_like": lambda g, data: _filled(g, 1),
    }
)


@onnx_form("_full")
def _full(g: Builder, p: ops.FullParams) -> Tensor:
    return _filled(g, p.value)


@onnx_form("_arange")
def _arange(g: Builder, p: ops.RangeParams) -> Tensor:
    start = p.start if p.is_open else p.bounds[0]
    (length,) = g.static(g.outs[0])
    dtype = g.outs[0].dtype
    kind = float if is_float(dtype) else int  # integer ranges have integer steps
    numbers = (np.arange(length) // p.repeat).astype("float32" if dtype in ("float16", "bfloat16") else dtype)
    return g.constant(numbers * kind(p.step) + kind(start), dtype)


@onnx_form("_linspace")
def _linspace(g: Builder, p: ops.LinspaceParams) -> Tensor:
    step = (p.stop - p.start) / max(p.num - p.endpoint, 1)
    wide: Any = np.float64 if g.outs[0].dtype == "float64" else np.float32
    return g.constant(np.arange(p.num, dtype=wide) * wide(step) + wide(p.start), g.outs[0].dtype)


@onnx_form("_eye")
def _eye(g: Builder, p: ops.EyeParams) -> Tensor:
    return g.constant(np.eye(p.N, p.M or p.N, p.k), g.outs[0].dtype)


@onnx_form("_npi_full_like")
def _full_like(g: Builder, p: ops.FullLikeParams, a: Tensor) -> Tensor:
    return _filled(g, p.fill_value)


@onnx_form("_npi_arange")
def _npi_arange(g: Builder, p: ops.NumpyRangeParams) -> Tensor:
    dtype = g.outs[0].dtype
    kind = float if is_float(dtype) else int
    numbers = np.arange(p.count).astype("float32" if dtype in ("float16", "bfloat16") else dtype)
    return g.constant(numbers * kind(p.step) + kind(p.start), dtype)


@onnx_form("_npi_eye")
def _npi_eye(g: Builder, p: ops.NumpyEyeParams) -> Tensor:
    return g.constant(np.eye(p.N, p.columns, p.k), p.dtype)


@onnx_form("_npi_identity")
def _identity(g: Builder, p: ops.NumpyInitParams) -> Tensor:
    rows, columns = np.indices(g.static(g.outs[0]))[:2]
    return g.constant(rows == columns, p.dtype)


@onnx_form("_npi_indices")
def _indices(g: Builder, p: ops.IndicesParams) -> Tensor:
    return g.constant(np.indices(p.dimensions), p.dtype)


@onnx_form("_npi_logspace")
def _logspace(g: Builder, p: ops.LogspaceParams) -> Tensor:
    return g.constant(np.logspace(p.start, p.stop, p.num, p.endpoint, p.base), p.dtype)


def _write_window(name: str, window: Callable[[int], np.ndarray]) -> None:
    onnx_form(name)(lambda g, p: g.constant(window(p.count), p.dtype))


for _name, _window in (("_npi_blackman", np.blackman), ("_npi_hamming", np.hamming), ("_npi_hanning", np.hanning)):
    _write_window(_name, _window)
