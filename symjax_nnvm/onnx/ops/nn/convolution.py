"""ONNX forms of convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn.convolution import ConvolutionGeometry, ConvolutionParams, WindowParams


def channels_first(axes: str) -> list[int]:
    """Return the permutation that puts a layout's axes channels first, ONNX' only order."""
    return [axes.index("N"), axes.index("C"), *(i for i, letter in enumerate(axes) if letter not in "NC")]


def inverse(order: Sequence[int]) -> list[int]:
    """The order that undoes another."""
    return [order.index(i) for i in range(len(order))]


def window(p: WindowParams) -> dict[str, Any]:
    """A window as attributes; padding is the same on both sides."""
    pads = [pad for *_, pad in p.steps]
    return {
        "kernel_shape": list(p.kernel),
        "strides": [stride for _, stride, _, _ in p.steps],
        "dilations": [dilation for _, _, dilation, _ in p.steps],
        "pads": pads * 2,
    }


def convolve(g: Builder, p: ConvolutionGeometry, data: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The convolution of data and weight in the layout of the parameters."""
    order = channels_first(p.axes)
    data, weight = g.transpose(data, order), g.transpose(weight, order)
    return g.transpose(g.op("Conv", data, weight, bias, group=p.num_group, **window(p)), inverse(order))


@onnx_form("Convolution", "Convolution_v1")
def _convolution(g: Builder, p: ConvolutionParams, data: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return convolve(g, p, data, weight, bias)
