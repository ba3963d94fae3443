"""ONNX forms of the casts for training in half precision, and of the checks and sums over many arrays."""

from __future__ import annotations

from functools import reduce
from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.elementwise import amp as ops


@onnx_form("amp_cast", "amp_multicast")
def _amp_cast(g: Builder, p: Any, *arrays: Tensor) -> list[Tensor]:
    """Return each in the dtype inferred of its result."""
    return [g.cast(array, out.dtype) for array, out in zip(arrays, g.outs, strict=True)]


@onnx_form("all_finite", "multi_all_finite")
def _all_finite(g: Builder, p: Any, *arrays: Tensor) -> Tensor:
    """x - x is 0 where x is finite, else NaN."""
    flat = [g.cast(g.reshape(array, -1), "float32") for array in arrays]
    verdicts = [g.op("Equal", g.op("Sub", x, x), 0.0) for x in flat]
    every = [g.op("ReduceMin", g.cast(verdict, "float32"), keepdims=1) for verdict in verdicts]
    return reduce(lambda x, y: g.op("Min", x, y), every)


@onnx_form("multi_sum_sq")
def _multi_sum_sq(g: Builder, p: ops.NumArraysParams, *arrays: Tensor) -> Tensor:
    flat = [g.cast(g.reshape(array, -1), "float32") for array in arrays]
    return g.concat([g.op("ReduceSumSquare", x, keepdims=1) for x in flat], 0)


refuses("reset_arrays", reason="it writes zeros to its inputs, but an ONNX graph cannot write to an input")
