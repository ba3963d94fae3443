"""ONNX forms of the reductions of the NumPy dialect."""

from __future__ import annotations

from math import prod
from typing import Any

from symjax_nnvm.ir.types import DType, is_float
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.numbers import in_int32
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.reduce import to_scalar as ops
from symjax_nnvm.ops.reduce.reduction import reduced_axes


def _reduced(g: Builder, kind: str, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    return in_int32(g, lambda x: g.reduce(kind, x, axes, keepdims=keepdims), x)


def _between(data: Tensor, out: DType) -> DType:
    """Return the dtype to add up in: the wider one, of floating-point data a floating-point one."""
    if is_float(data.dtype):
        return "float64" if "float64" in (data.dtype, out) else "float32"
    return "int32" if out == "bool" else out


def _of_numbers(name: str, kind: str) -> None:
    @onnx_form(name)
    def form(g: Builder, p: Any, a: Tensor) -> Tensor:
        out = g.outs[0].dtype
        x = g.cast(a, _between(a, out) if name != "_npi_mean" or is_float(a.dtype) else "float64")
        return g.cast(_reduced(g, kind, x, reduced_axes(p, a.ndim), p.keepdims), out)


for _name, _kind in (("_np_sum", "ReduceSum"), ("_np_prod", "ReduceProd"), ("_npi_mean", "ReduceMean")):
    _of_numbers(_name, _kind)


def _extreme(name: str, kind: str) -> None:
    @onnx_form(name)
    def form(g: Builder, p: Any, a: Tensor) -> Tensor:
        is_truth = name in ("_np_any", "_np_all")
        x = g.cast(g.cast(a, "bool"), "int32") if is_truth else a
        return g.cast(_reduced(g, kind, x, reduced_axes(p, a.ndim), p.keepdims), g.outs[0].dtype)


for _name, _kind in (("max", "Max"), ("min", "Min"), ("any", "Max"), ("all", "Min")):
    _extreme(f"_np_{_name}", f"Reduce{_kind}")


def _search(name: str, kind: str) -> None:
    @onnx_form(name)
    def form(g: Builder, p: ops.SearchParams, data: Tensor) -> Tensor:
        whole = p.axis is None or data.ndim == 0
        x = g.reshape(data, -1) if whole else data
        return g.reshape_as(g.op(kind, x, axis=0 if whole else p.axis, keepdims=1, dtype="int64"), g.outs[0])


_search("_npi_argmax", "ArgMax")
_search("_npi_argmin", "ArgMin")


def _variance(g: Builder, p: ops.SpreadParams, a: Tensor) -> Tensor:
    axes, out = reduced_axes(p, a.ndim), g.outs[0].dtype
    x = g.cast(a, "float64" if "float64" in (a.dtype, out) else "float32")
    mean = _reduced(g, "ReduceMean", x, axes, True)
    mean = mean if is_float(a.dtype) else g.cast(g.cast(mean, a.dtype), x.dtype)
    difference = g.op("Sub", x, mean)
    mean_square = _reduced(g, "ReduceMean", g.op("Mul", difference, difference), axes, p.keepdims)
    if p.ddof:
        sizes = g.static(a, axes)
        count = prod(sizes[axis] for axis in axes)
        mean_square = g.op("Mul", mean_square, count / (count - p.ddof))
    return mean_square


@onnx_form("_npi_var")
def _var(g: Builder, p: ops.SpreadParams, a: Tensor) -> Tensor:
    return g.cast(_variance(g, p, a), g.outs[0].dtype)


@onnx_form("_npi_std")
def _std(g: Builder, p: ops.SpreadParams, a: Tensor) -> Tensor:
    return g.cast(g.op("Sqrt", _variance(g, p, a)), g.outs[0].dtype)
