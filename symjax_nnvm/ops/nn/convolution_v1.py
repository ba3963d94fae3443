"""Convolution_v1: the first version of Convolution, over two or three spatial axes."""

from __future__ import annotations

from typing import Literal

from symjax_nnvm.ir.attributes import FGradient, FInferShape
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.params import param
from symjax_nnvm.ir.register import float_type, register_op
from symjax_nnvm.ops.nn.convolution import (
    ConvolutionParams,
    convolution_flops,
    convolution_of_scaled,
    padded,
    scaled_convolution,
)


class ConvolutionV1Params(ConvolutionParams):
    workspace: int = param(1024, ge=0, doc="memory limit of cuDNN in MB; accepted and without effect")
    layout: Literal["NCDHW", "NCHW", "NDHWC", "NHWC"] | None = param(
        None, doc="order of the axes of data; None: channels first"
    )

    def check(self) -> str | None:
        if len(self.kernel) == 1:
            return f"Parameter kernel={self.kernel}: 1D convolution not supported, expected 2 or 3 sizes"
        return super().check()


register_op(
    "Convolution_v1",
    samples="each",
    params=ConvolutionV1Params,
    inputs=("data", "weight", "bias"),
    inputs_used=lambda p: ("data", "weight") if p.no_bias else ("data", "weight", "bias"),
    infer_type=float_type,
    gradient=FGradient[Op.get("Convolution")],
    FInferShape=FInferShape[Op.get("Convolution")],
    flops=convolution_flops,
    workspace=padded(lambda ins, outs: ins[0]),
    precision="half",
    FScaled=scaled_convolution,
    FScaledData=convolution_of_scaled,
    drawing="convolution",
    doc="(deprecated; use Convolution) Convolution of data with num_filter learned windows, plus a bias for each. "
    "Works over two and three spatial axes and in every layout; MXNet's takes two, channels first.",
)
