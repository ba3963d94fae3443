"""ONNX forms of the functions of two broadcast arrays, and of where."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, onnx_table
from symjax_nnvm.onnx.numbers import whole
from symjax_nnvm.onnx.ops.elementwise.binary import FUNCTIONS
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.elementwise import broadcast as ops


def _where(g: Builder, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    holds = g.cast(condition, "bool")
    if condition.ndim < x.ndim:
        holds = g.along(holds, 0, x.ndim)
    return g.op("Where", holds, x, y)


onnx_table({f"broadcast_{name}": function for name, function in FUNCTIONS.items()})
onnx_table({"where": _where})


def _chosen(g: Builder, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return g.op("Where", g.cast(condition, "bool"), x, y)


onnx_table({"_npi_where": _chosen})


@onnx_form("_npi_where_lscalar")
def _where_lscalar(g: Builder, p: ops.WhereScalarParams, condition: Tensor, y: Tensor) -> Tensor:
    return _chosen(g, condition, g.constant(whole(p.scalar, y.dtype), y.dtype), y)


@onnx_form("_npi_where_rscalar")
def _where_rscalar(g: Builder, p: ops.WhereScalarParams, condition: Tensor, x: Tensor) -> Tensor:
    return _chosen(g, condition, x, g.constant(whole(p.scalar, x.dtype), x.dtype))


@onnx_form("_npi_where_scalar2")
def _where_scalar2(g: Builder, p: ops.WhereScalar2Params, condition: Tensor) -> Tensor:
    return _chosen(g, condition, g.constant(p.x, "float32"), g.constant(p.y, "float32"))
