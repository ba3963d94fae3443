"""ONNX forms of matrix products."""

from __future__ import annotations

from typing import Any

from symjax_nnvm.ir.rules.axes import normal_axis
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.linalg import dot as ops


def turned(g: Builder, matrices: Tensor, transpose: bool) -> Tensor:
    """Matrices over the last two axes, transposed or not."""
    ndim = matrices.ndim
    return g.transpose(matrices, (*range(ndim - 2), ndim - 1, ndim - 2)) if transpose else matrices


def moved(ndim: int, source: int, target: int) -> list[int]:
    """The order of axes in which one stands in another place."""
    order = [i for i in range(ndim) if i != source % ndim]
    order.insert(target % ndim, source % ndim)
    return order


def scaled(g: Builder, tensor: Tensor, factor: float) -> Tensor:
    """factor · tensor, without a multiplication by 1."""
    return tensor if factor == 1 else g.op("Mul", tensor, factor)


@onnx_form("dot")
def _dot(g: Builder, p: ops.DotParams, lhs: Tensor, rhs: Tensor) -> Tensor:
    i, j = ops.contracted_axes(p, lhs.ndim, rhs.ndim)
    rows = g.transpose(lhs, moved(lhs.ndim, i, -1))
    columns = g.transpose(rhs, moved(rhs.ndim, j, 0))
    if rhs.ndim > 2:
        columns = g.reshape(columns, g.size(rhs, j), -1)
    product = g.op("MatMul", rows, columns)
    return g.reshape_as(product, g.outs[0]) if rhs.ndim > 2 or lhs.ndim == rhs.ndim == 1 else product


@onnx_form("batch_dot")
def _batch_dot(g: Builder, p: ops.DotParams, lhs: Tensor, rhs: Tensor) -> Tensor:
    return g.op("MatMul", turned(g, lhs, p.transpose_a), turned(g, rhs, p.transpose_b))


def products(g: Builder, p: ops.Transposed, axis: int, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """Products of matrices whose rows are along an axis, their columns along the last."""
    axis = normal_axis(axis, a.ndim)
    order = moved(a.ndim, axis, -2)
    a, b = g.transpose(a, order), g.transpose(b, order)
    product = scaled(g, g.op("MatMul", turned(g, a, p.transpose_a), turned(g, b, p.transpose_b)), alpha)
    return g.transpose(product, moved(a.ndim, -2, axis))


@onnx_form("_linalg_gemm2")
def _gemm2(g: Builder, p: ops.Gemm2Params, a: Tensor, b: Tensor) -> Tensor:
    return products(g, p, p.axis, a, b, p.alpha)


@onnx_form("khatri_rao")
def _khatri_rao(g: Builder, p: Any, *matrices: Tensor) -> Tensor:
    out = matrices[0]
    columns = g.static(out, [1])[1]
    for matrix in matrices[1:]:
        out = g.reshape(g.op("Mul", g.unsqueeze(out, 1), g.unsqueeze(matrix, 0)), -1, columns)
    return out
