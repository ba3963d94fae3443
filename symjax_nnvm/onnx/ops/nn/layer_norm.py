"""ONNX forms of LayerNorm, GroupNorm and InstanceNorm."""

from __future__ import annotations

from symjax_nnvm.ir.rules.axes import normal_axis
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import layer_norm as ops


def _statistics(g: Builder, x: Tensor, axis: int, eps: float) -> tuple[Tensor, Tensor]:
    """Return (x - mean, mean) and √(variance + eps) along an axis, which stays."""
    mean = g.op("ReduceMean", x, [axis], keepdims=1)
    centred = g.op("Sub", x, mean)
    variance = g.op("ReduceMean", g.op("Mul", centred, centred), [axis], keepdims=1)
    return mean, g.op("Sqrt", g.op("Add", variance, eps))


@onnx_form("LayerNorm")
def _layer_norm(g: Builder, p: ops.LayerNormParams, data: Tensor, gamma: Tensor, beta: Tensor) -> list[Tensor]:
    axis = normal_axis(p.axis, data.ndim)
    statistics = _statistics(g, data, axis, p.eps) if p.output_mean_var or axis != data.ndim - 1 else None
    if axis == data.ndim - 1:
        out = g.op("LayerNormalization", data, gamma, beta, axis=-1, epsilon=p.eps)
    else:
        assert statistics is not None
        mean, std = statistics
        gamma, beta = (g.along(vector, axis, data.ndim) for vector in (gamma, beta))
        out = g.op("Add", g.op("Mul", g.op("Div", g.op("Sub", data, mean), std), gamma), beta)
    return [out, *(statistics or ())][: 3 if p.output_mean_var else 1]


@onnx_form("GroupNorm")
def _group_norm(g: Builder, p: ops.GroupNormParams, data: Tensor, gamma: Tensor, beta: Tensor) -> list[Tensor]:
    """Each group is a channel of an InstanceNormalization; gamma and beta are those of groups."""
    rows = g.op("Reshape", data, [0, p.num_groups, -1])
    out = g.reshape_as(g.op("InstanceNormalization", rows, gamma, beta, epsilon=p.eps), data)
    if not p.output_mean_var:
        return [out]
    return [out, *(g.reshape_as(value, g.outs[1]) for value in _statistics(g, rows, 2, p.eps))]


@onnx_form("InstanceNorm")
def _instance_norm(g: Builder, p: ops.InstanceNormParams, data: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    if data.ndim > 2:
        return g.op("InstanceNormalization", data, gamma, beta, epsilon=p.eps)
    rows = g.unsqueeze(data, 2)
    return g.reshape_as(g.op("InstanceNormalization", rows, gamma, beta, epsilon=p.eps), data)
