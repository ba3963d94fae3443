"""ONNX forms of the matrix products of linear algebra."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.ops.linalg.dot import products, scaled, turned
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.linalg import gemm as ops


@onnx_form("_linalg_gemm")
def _gemm(g: Builder, p: ops.GemmParams, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    return g.op("Add", products(g, p, p.axis, a, b, p.alpha), scaled(g, c, p.beta))


@onnx_form("_linalg_syrk")
def _syrk(g: Builder, p: ops.SyrkParams, a: Tensor) -> Tensor:
    other = turned(g, a, True)
    return scaled(g, g.op("MatMul", *((other, a) if p.transpose else (a, other))), p.alpha)


@onnx_form("_linalg_trmm")
def _trmm(g: Builder, p: ops.TriangularParams, a: Tensor, b: Tensor) -> Tensor:
    triangle = g.op("Trilu", a, upper=int(not p.lower))
    triangle.shapes = a.shapes
    triangle = turned(g, triangle, p.transpose)
    return scaled(g, g.op("MatMul", *((b, triangle) if p.rightside else (triangle, b))), p.alpha)
