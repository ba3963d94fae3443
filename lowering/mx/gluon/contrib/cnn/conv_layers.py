"""Deformable convolutions, with the convolution that computes their places."""

from __future__ import annotations

from typing import Any

from lowering.mx.accepted_types import InitializerLike
from lowering.mx.base import numeric_types
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.nn import Activation
from lowering.mx.gluon.nn.conv_layers import convolution_text
from lowering.mx.gluon.tensor import Tensor

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


def _pair(size: Any) -> tuple[Any, Any]:
    return (size, size) if isinstance(size, numeric_types) else tuple(size)


class DeformableConvolution(HybridBlock):
    """A convolution of (n, c, h, w) whose places are moved by offsets, which another convolution computes (Dai et al.
    2017).

    Parameters: offset_weight, offset_bias of that convolution; deformable_conv_weight, deformable_conv_bias. channels:
    of the output. op_name has no effect. Raises AssertionError for layouts other than "NCHW" and "NHWC"; the operators
    accept only the first.
    """

    _operator, _hint, _each = "DeformableConvolution", "deformable_conv", 2
    deformable_conv_weight: Any
    deformable_conv_bias: Any
    _turned = False
    """Whether the parameters of the offsets' convolution are the last ones, as MXNet has them."""

    def __init__(
        self,
        channels: int,
        kernel_size: Any = (1, 1),
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: InitializerLike = None,
        bias_initializer: InitializerLike = "zeros",
        offset_weight_initializer: InitializerLike = "zeros",
        offset_bias_initializer: InitializerLike = "zeros",
        offset_use_bias: bool = True,
        op_name: str | None = None,
        adj: Any = None,
        prefix: str | None = None,
        params: Any = None,
    ):
        super().__init__(prefix=prefix, params=params)
        assert layout in ("NCHW", "NHWC"), "Only supports 'NCHW' and 'NHWC' layout for now"
        sizes = kernel_size, strides, padding, dilation
        kernel, stride, pad, dilate = (_pair(size) for size in sizes)
        common = {"kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad}
        self._places = 2 * kernel[0] * kernel[1] * num_deformable_group
        filters = self._each * self._places // 2
        self._kwargs_offset = {
            **common, "num_filter": filters, "num_group": groups, "no_bias": not offset_use_bias, "layout": layout
        }  # fmt: skip
        self._kwargs_deformable_conv = {
            **common, "num_filter": channels, "num_group": groups, "num_deformable_group": num_deformable_group,
            "no_bias": not use_bias, "layout": layout,
        }  # fmt: skip
        if adj:
            self._kwargs_offset["adj"] = self._kwargs_deformable_conv["adj"] = adj
        inputs = in_channels // groups
        offset_shape = (filters, inputs, *kernel) if layout == "NCHW" else (filters, *kernel, inputs)
        rows = [
            ("offset_weight", offset_shape, offset_weight_initializer, True),
            ("offset_bias", (filters,), offset_bias_initializer, offset_use_bias),
            ("deformable_conv_weight", (channels, 0, *kernel), weight_initializer, True),
            ("deformable_conv_bias", (channels,), bias_initializer, use_bias),
        ]
        with self.name_scope():
            for name, shape, init, used in rows[2 * self._turned :] + rows[: 2 * self._turned]:
                parameter = self.params.get(name, shape=shape, init=init, allow_deferred_init=True) if used else None
                setattr(self, name, parameter)
            self.act = Activation(activation, prefix=f"{activation}_") if activation else None

    def hybrid_forward(
        self,
        F: Any,
        x: Tensor,
        offset_weight: Any,
        deformable_conv_weight: Any,
        offset_bias: Any = None,
        deformable_conv_bias: Any = None,
    ) -> Any:
        """Return the convolution, and the activation if there is one."""
        weights = (offset_weight, *(() if offset_bias is None else (offset_bias,)))
        offset = F.Convolution(x, *weights, cudnn_off=True, **self._kwargs_offset)
        bias = {} if deformable_conv_bias is None else {"bias": deformable_conv_bias}
        operator = getattr(F.contrib, self._operator)
        inputs = self._inputs(F, x, offset)
        convolved = operator(
            **inputs, weight=deformable_conv_weight, **bias, name="fwd", **self._kwargs_deformable_conv
        )
        return self.act(convolved) if self.act else convolved

    def _inputs(self, F: Any, x: Any, offset: Any) -> dict[str, Any]:
        """Return the operator's inputs but the weights."""
        return {"data": x, "offset": offset}

    def _alias(self) -> str:
        return self._hint

    def __repr__(self) -> str:
        return convolution_text(self, self.deformable_conv_weight.shape, self._kwargs_deformable_conv)


class ModulatedDeformableConvolution(DeformableConvolution):
    """A deformable convolution whose values are weighted by masks, twice a sigmoid, too (Zhu et al. 2019)."""

    _operator, _hint, _each = "ModulatedDeformableConvolution", "modulated_deformable_conv", 3
    _turned = True

    def _inputs(self, F: Any, x: Any, offset: Any) -> dict[str, Any]:
        places = F.slice_axis(offset, axis=1, begin=0, end=self._places)
        mask = F.sigmoid(F.slice_axis(offset, axis=1, begin=self._places, end=None)) * 2
        return {"data": x, "offset": places, "mask": mask}
