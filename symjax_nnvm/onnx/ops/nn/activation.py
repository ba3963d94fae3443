"""ONNX forms of activations."""

from __future__ import annotations

import math
from typing import Any

from symjax_nnvm.ir.types import Shape
from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import direct, onnx_form
from symjax_nnvm.onnx.ops.elementwise.unary import REAL, relu
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import activation as ops

_ACTIVATIONS = {name: REAL[name] for name in ("sigmoid", "softsign", "tanh")}
_ACTIVATIONS |= {"relu": relu, "softrelu": direct("Softplus")}


@onnx_form("Activation")
def _activation(g: Builder, p: ops.ActivationParams, data: Tensor) -> Tensor:
    return _ACTIVATIONS[p.act_type](g, data)


@onnx_form("LeakyReLU")
def _leaky_relu(g: Builder, p: ops.LeakyReLUParams, data: Tensor, gamma: Tensor | None = None) -> Tensor | list[Tensor]:
    match p.act_type:
        case "leaky":
            return g.op("LeakyRelu", data, alpha=p.slope)
        case "elu":
            return g.op("Elu", data, alpha=p.slope)
        case "selu":
            return g.op("Selu", data, alpha=ops.SELU_ALPHA, gamma=ops.SELU_SCALE)
        case "gelu":
            half = g.op("Add", g.op("Erf", g.op("Mul", data, math.sqrt(0.5))), 1.0)
            return g.op("Mul", g.op("Mul", data, half), 0.5)
        case "rrelu":
            slope = (p.lower_bound + p.upper_bound) / 2
            return [g.op("LeakyRelu", data, alpha=slope), g.fill(slope, data)]
    assert gamma is not None
    return g.op("PRelu", data, _slopes_like(g, p, gamma, data))


@onnx_form("_slopes_like")
def _slopes_like(g: Builder, p: Any, gamma: Tensor, like: Tensor) -> Tensor:
    places: Shape = ops.slopes_shape(gamma.shape, like.shape)
    return g.reshape(gamma, *(1 if size is None else size for size in places))
