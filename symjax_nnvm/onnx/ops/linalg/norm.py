"""ONNX forms of norm."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.linalg import norm as ops
from symjax_nnvm.ops.reduce.reduction import reduced_axes


@onnx_form("_npi_norm")
def _norm(g: Builder, p: ops.MatrixNormParams, data: Tensor) -> Tensor:
    summed, axes = ops.summed_axes(p, data.ndim), reduced_axes(p, data.ndim)
    if summed is not None:
        sums = g.op("Abs", data) if not summed else g.reduce("ReduceL1", data, summed, keepdims=True)
        return g.reduce("ReduceMax" if p.ord > 0 else "ReduceMin", sums, axes, keepdims=p.keepdims)
    if ops.is_of_matrices(p, data.ndim):
        g.refuse("ONNX has no factorisation of matrices", "compute it outside of the network")
    by_ord = p.flag == ops.BY_ORD and p.ord != 2
    if not by_ord or p.ord == 1:
        return g.reduce("ReduceL1" if by_ord else "ReduceL2", data, axes, keepdims=p.keepdims)
    if p.ord == 0:
        there = g.cast(g.cast(data, "bool"), data.dtype)
        return g.reduce("ReduceSum", there, axes, keepdims=p.keepdims)
    powers = g.op("Pow", g.op("Abs", data), p.ord)
    return g.op("Pow", g.reduce("ReduceSum", powers, axes, keepdims=p.keepdims), 1 / p.ord)


refuses("_norm_direction", reason="it is part of a gradient, and a file holds what a network computes at inference")
