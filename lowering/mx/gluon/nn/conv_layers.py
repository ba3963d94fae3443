"""Convolutions along one, two and three axes, their transposes, and padding by reflection.

Pooling is here, too, under MXNet's name of its module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowering.messages.counts import check_count, checks_flags
from lowering.mx import symbol as sym
from lowering.mx.accepted_types import InitializerLike
from lowering.mx.base import numeric_types
from lowering.mx.gluon.gluon_errors import MismatchError
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.nn.activations import Activation
from lowering.mx.gluon.nn.layers_by_rank import Ranked
from lowering.mx.gluon.nn.pooling import AvgPool1D as AvgPool1D
from lowering.mx.gluon.nn.pooling import AvgPool2D as AvgPool2D
from lowering.mx.gluon.nn.pooling import AvgPool3D as AvgPool3D
from lowering.mx.gluon.nn.pooling import GlobalAvgPool1D as GlobalAvgPool1D
from lowering.mx.gluon.nn.pooling import GlobalAvgPool2D as GlobalAvgPool2D
from lowering.mx.gluon.nn.pooling import GlobalAvgPool3D as GlobalAvgPool3D
from lowering.mx.gluon.nn.pooling import GlobalMaxPool1D as GlobalMaxPool1D
from lowering.mx.gluon.nn.pooling import GlobalMaxPool2D as GlobalMaxPool2D
from lowering.mx.gluon.nn.pooling import GlobalMaxPool3D as GlobalMaxPool3D
from lowering.mx.gluon.nn.pooling import MaxPool1D as MaxPool1D
from lowering.mx.gluon.nn.pooling import MaxPool2D as MaxPool2D
from lowering.mx.gluon.nn.pooling import MaxPool3D as MaxPool3D
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.shared_arguments import explained_by


def _sizes(value: Any, rank: int, what: str) -> Any:
    """Repeat one number for each axis; several stay as they are. Raises MismatchError for another count."""
    sizes = (value,) * rank if isinstance(value, numeric_types) else value
    if len(sizes) != rank:
        raise MismatchError(f"{what} must be a number or a list of {rank} ints", got=value)
    return sizes


def _check_layout(layout: str, layouts: tuple[str, ...], what: str) -> None:
    if layout not in layouts:
        raise MismatchError(f"Only supports {' and '.join(layouts)} layout for {what}", got=layout)


class _Conv(Ranked):
    """Holds what all convolutions have in common. adj: the adjustment of a transposed one."""

    @checks_flags
    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        layout: str,
        in_channels: int = 0,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: InitializerLike = None,
        bias_initializer: InitializerLike = "zeros",
        op_name: str = "Convolution",
        adj: Any = None,
        prefix: str | None = None,
        params: Any = None,
    ):
        super().__init__(prefix=prefix, params=params)
        rank = len(kernel_size)
        with self.name_scope():
            self._channels, self._in_channels, self._op_name = channels, in_channels, op_name
            self._kwargs: dict[str, Any] = {
                "kernel": kernel_size,
                "stride": (strides,) * rank if isinstance(strides, numeric_types) else strides,
                "dilate": (dilation,) * rank if isinstance(dilation, numeric_types) else dilation,
                "pad": (padding,) * rank if isinstance(padding, numeric_types) else padding,
                "num_filter": channels,
                "num_group": groups,
                "no_bias": not use_bias,
                "layout": layout,
            }
            if adj is not None:
                self._kwargs["adj"] = adj
            getattr(sym, op_name)(sym.var("data"), name="check", **self._kwargs)  # refuses wrong parameters at once
            first, second = (in_channels, channels) if op_name == "Deconvolution" else (channels, in_channels)
            kernel, last = tuple(kernel_size), second // check_count(groups, "groups")
            shape = (first, last, *kernel) if layout.find("C") == 1 else (first, *kernel, last)
            flags = {"allow_deferred_init": True}
            self.weight = self.params.get("weight", shape=shape, init=weight_initializer, **flags)
            self.bias = self.params.get("bias", shape=(channels,), init=bias_initializer, **flags) if use_bias else None
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def _alias(self) -> str:
        return "conv"

    def hybrid_forward(self, F: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        """Return the layer's output, in x's layout."""
        inputs = [x, weight] if bias is None else [x, weight, bias]
        out = getattr(F, self._op_name)(*inputs, name="fwd", **self._kwargs)
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        return convolution_text(self, self.weight.shape, self._kwargs)


def convolution_text(layer: Any, weight_shape: Sequence[int], params: Mapping[str, Any]) -> str:
    """What a convolution is printed as. params: those of its operator."""
    filters, inputs, *_ = weight_shape
    rank = len(params["kernel"])
    text = f"{type(layer).__name__}({inputs or None} -> {filters}, kernel_size={params['kernel']}"
    text += f", stride={params['stride']}"
    text += f", padding={params['pad']}" if params["pad"] != (0,) * rank else ""
    text += f", dilation={params['dilate']}" if params["dilate"] != (1,) * rank else ""
    text += f", groups={params['num_group']}" if params["num_group"] != 1 else ""
    text += ", bias=False" if params["no_bias"] else ""
    return text + (f", {layer.act})" if layer.act else ")")


class _Convolution(_Conv):
    """A convolution along some axes.

    Args:
        channels: the number of channels of the output.
        kernel_size: the size of the window, a number or one for each axis.
        strides: the step between two windows, a number or one for each axis.
        padding: the number of zeros on both sides, a number or one for each axis.
        dilation: the distance between the elements of a window, a number or one for each axis.
        groups: the number of groups of channels; each is convolved by itself.
        layout: the order of the axes: {layouts}.
        activation: the activation after it, such as "relu"; None for none.
        use_bias: whether a bias is added.
        weight_initializer: the initialiser of the weight; None for the network's.
        bias_initializer: the initialiser of the bias.
        in_channels: the number of channels of the input; 0: the first call decides.
        kwargs: `prefix` and `params` of the block.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        layout: str = "NCW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: InitializerLike = None,
        bias_initializer: InitializerLike = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ):
        _check_layout(layout, self._layouts, "now")
        kernel, op_name = _sizes(kernel_size, self._rank, "kernel_size"), kwargs.pop("op_name", "Convolution")
        options = activation, use_bias, weight_initializer, bias_initializer, op_name
        super().__init__(channels, kernel, strides, padding, dilation, groups, layout, in_channels, *options, **kwargs)


class Conv1D(_Convolution, layouts=("NCW",)):
    """A convolution of data (n, c, w)."""


class Conv2D(_Convolution, layouts=("NCHW", "NHWC"), strides=(1, 1), padding=(0, 0), dilation=(1, 1)):
    """A convolution of data (n, c, h, w) or (n, h, w, c)."""


class Conv3D(_Convolution, layouts=("NCDHW", "NDHWC"), strides=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 1, 1)):
    """A convolution of data (n, c, d, h, w) or (n, d, h, w, c)."""


@explained_by(_Convolution)
class _Transpose(_Conv):
    """The transpose of a convolution."""

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        layout: str = "NCW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: InitializerLike = None,
        bias_initializer: InitializerLike = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ):
        _check_layout(layout, self._layouts, "now")
        kernel = _sizes(kernel_size, self._rank, "kernel_size")
        self.outpad = _sizes(output_padding, self._rank, "output_padding")
        options = activation, use_bias, weight_initializer, bias_initializer, kwargs.pop("op_name", "Deconvolution")
        sizes = strides, padding, dilation, groups, layout, in_channels
        super().__init__(channels, kernel, *sizes, *options, self.outpad, **kwargs)


class Conv1DTranspose(_Transpose, layouts=("NCW",)):
    """The transpose of Conv1D.

    Args:
        output_padding: the number of further columns of the output.
    """


class Conv2DTranspose(
    _Transpose, layouts=("NCHW", "NHWC"), strides=(1, 1), padding=(0, 0), output_padding=(0, 0), dilation=(1, 1)
):
    """The transpose of Conv2D.

    Args:
        output_padding: the numbers of further rows and columns of the output.
    """


class Conv3DTranspose(
    _Transpose,
    layouts=("NCDHW", "NDHWC"),
    strides=(1, 1, 1),
    padding=(0, 0, 0),
    output_padding=(0, 0, 0),
    dilation=(1, 1, 1),
):
    """The transpose of Conv3D.

    Args:
        output_padding: the number of further elements of the output along each axis.
    """


class ReflectionPad2D(HybridBlock):
    """Adds rows and columns to data (n, c, h, w) that mirror those at the edges.

    Args:
        padding: the number of rows and columns on each side, or the eight numbers of the operator pad.
        kwargs: `prefix` and `params` of the block.
    """

    def __init__(self, padding: Any = 0, **kwargs: Any):
        super().__init__(**kwargs)
        if isinstance(padding, numeric_types):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        if len(padding) != 8:
            raise MismatchError("padding must be one number or 8 numbers", got=padding)
        self._padding = padding

    def hybrid_forward(self, F: Any, x: Tensor) -> Any:
        """x (n, c, h, w), padded."""
        return F.pad(x, mode="reflect", pad_width=self._padding)
