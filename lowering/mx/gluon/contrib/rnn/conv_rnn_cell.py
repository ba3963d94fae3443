"""Convolutional recurrent cells: products are convolutions (Shi et al. 2015)."""

from __future__ import annotations

from functools import partial
from typing import Any

from lowering.mx.accepted_types import InitializerLike
from lowering.mx.base import numeric_types
from lowering.mx.gluon.gluon_errors import MismatchError
from lowering.mx.gluon.rnn.rnn_cell import HybridRecurrentCell, activated
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.rnn.formulas import gru, lstm

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


class _ConvCell(HybridRecurrentCell):
    """What convolutional cells share.

    input_shape: (c, h, w) of a step for layout "NCHW". hidden_channels: the number of channels of states and outputs.
    i2h_kernel, i2h_pad, i2h_dilate: of the input's convolution; h2h_kernel, odd numbers, and h2h_dilate: of the
    state's, which keeps its size. Each is a number or one for each axis. conv_layout: default channels first.
    activation: a name or a block.
    """

    _dims = 2
    _gates, _states, _hint = 1, 1, "conv_rnn"
    i2h_weight: Any

    def __init__(
        self,
        input_shape: Any,
        hidden_channels: int,
        i2h_kernel: Any,
        h2h_kernel: Any,
        i2h_pad: Any = 0,
        i2h_dilate: Any = 1,
        h2h_dilate: Any = 1,
        i2h_weight_initializer: InitializerLike = None,
        h2h_weight_initializer: InitializerLike = None,
        i2h_bias_initializer: InitializerLike = "zeros",
        h2h_bias_initializer: InitializerLike = "zeros",
        conv_layout: str | None = None,
        activation: Any = "tanh",
        prefix: str | None = None,
        params: Any = None,
    ):
        super().__init__(prefix=prefix, params=params)
        values = i2h_kernel, i2h_pad, i2h_dilate, h2h_kernel, h2h_dilate
        assert all(isinstance(value, numeric_types) or len(value) == self._dims for value in values), (
            f"For {self._dims}D convolution, the convolution settings can only be either int or list/tuple of length "
            f"{self._dims}"
        )
        sizes = (tuple(value) if isinstance(value, list | tuple) else (value,) * self._dims for value in values)
        kernel, pad, dilate, h2h_kernel, h2h_dilate = sizes
        assert all(size % 2 == 1 for size in h2h_kernel), f"Only support odd number, get h2h_kernel= {h2h_kernel}"
        h2h_pad = tuple(d * (k - 1) // 2 for d, k in zip(h2h_dilate, h2h_kernel, strict=True))
        self._hidden_channels, self._activation = hidden_channels, activation
        self._conv_layout = layout = conv_layout or _LAYOUTS[self._dims]
        self._channel_axis = channels = layout.find("C")
        last = channels != 1
        shape = tuple(input_shape)
        if len(shape) != self._dims + 1:
            expected = f"{self._dims + 1} sizes, of the channels and {self._dims} axes"
            raise MismatchError("input_shape must be the shape of one sample", expected=expected, got=shape)
        in_channels, extent = shape[channels - 1], shape[:-1] if last else shape[1:]
        rows = zip(extent, kernel, pad, dilate, strict=True)
        extent = tuple(x + 2 * p - d * (k - 1) if x else 0 for x, k, p, d in rows)
        self._state_shape = (*extent, hidden_channels) if last else (hidden_channels, *extent)
        filters = hidden_channels * self._gates
        self._in_channels, self._filters = in_channels, filters
        self._convolutions = {
            "i2h": {"kernel": kernel, "pad": pad, "dilate": dilate},
            "h2h": {"kernel": h2h_kernel, "pad": h2h_pad, "dilate": h2h_dilate},
        }
        i2h_shape = (*kernel, in_channels) if last else (in_channels, *kernel)
        h2h_shape = (*h2h_kernel, hidden_channels) if last else (hidden_channels, *h2h_kernel)
        for name, shape, init in (
            ("i2h_weight", (filters, *i2h_shape), i2h_weight_initializer),
            ("h2h_weight", (filters, *h2h_shape), h2h_weight_initializer),
            ("i2h_bias", (filters,), i2h_bias_initializer),
            ("h2h_bias", (filters,), h2h_bias_initializer),
        ):
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """Return the output, and of an LSTM the cell: both in the layout of the convolutions."""
        info = {"shape": (batch_size, *self._state_shape), "__layout__": self._conv_layout}
        return [dict(info) for _ in range(self._states)]

    def _alias(self) -> str:
        return self._hint

    def __repr__(self) -> str:
        mapping = f"{self._in_channels if self._in_channels else None} -> {self.i2h_weight.shape[0]}"
        return f"{type(self).__name__}({mapping}, {self._activation}, {self._conv_layout})"

    def _convolved(self, F: Any, inputs: Any, state: Any, parameters: dict[str, Any]) -> list[Any]:
        """Return the convolutions of the input, and of the output before."""
        return [
            F.Convolution(
                data=data,
                weight=parameters[f"{name}_weight"],
                bias=parameters[f"{name}_bias"],
                num_filter=self._filters,
                stride=(1,) * self._dims,
                layout=self._conv_layout,
                name=f"{self.step}{name}",
                **self._convolutions[name],
            )
            for name, data in (("i2h", inputs), ("h2h", state))
        ]


class _ConvRNNCell(_ConvCell):
    """Computes h' = activation(W * x + b + U * h + c), with convolutions: else as `_ConvCell`."""

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any, **parameters: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run one step."""
        i2h, h2h = self._convolved(F, inputs, states[0], parameters)
        output = activated(F, i2h + h2h, self._activation, name=f"{self.step}out")
        return output, [output]


class _ConvLSTMCell(_ConvCell):
    """Long short-term memory with convolutions; its states are (output, cell): else as `_ConvCell`."""

    _gates, _states, _hint = 4, 2, "conv_lstm"

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any, **parameters: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run one step."""
        i2h, h2h = self._convolved(F, inputs, states[0], parameters)
        squash = partial(activated, F, activation=self._activation)
        output, cell = lstm(F, i2h + h2h, states[1], self.step, squash, axis=self._channel_axis)
        return output, [output, cell]


class _ConvGRUCell(_ConvCell):
    """A gated recurrent unit with convolutions: else as `_ConvCell`."""

    _gates, _hint = 3, "conv_gru"

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any, **parameters: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run one step."""
        i2h, h2h = self._convolved(F, inputs, states[0], parameters)
        squash = partial(activated, F, activation=self._activation)
        output = gru(F, i2h, h2h, states[0], self.step, squash, axis=self._channel_axis)
        return output, [output]


class Conv1DRNNCell(_ConvRNNCell):
    """A recurrent cell over sequences (n, c, w): see `_ConvCell`."""

    _dims = 1


class Conv2DRNNCell(_ConvRNNCell):
    """A recurrent cell over images (n, c, h, w): see `_ConvCell`."""


class Conv3DRNNCell(_ConvRNNCell):
    """A recurrent cell over volumes (n, c, d, h, w): see `_ConvCell`."""

    _dims = 3


class Conv1DLSTMCell(_ConvLSTMCell):
    """Long short-term memory over sequences (n, c, w): see `_ConvCell`."""

    _dims = 1


class Conv2DLSTMCell(_ConvLSTMCell):
    """Long short-term memory over images (n, c, h, w): see `_ConvCell`."""


class Conv3DLSTMCell(_ConvLSTMCell):
    """Long short-term memory over volumes (n, c, d, h, w): see `_ConvCell`."""

    _dims = 3


class Conv1DGRUCell(_ConvGRUCell):
    """A gated recurrent unit over sequences (n, c, w): see `_ConvCell`."""

    _dims = 1


class Conv2DGRUCell(_ConvGRUCell):
    """A gated recurrent unit over images (n, c, h, w): see `_ConvCell`."""


class Conv3DGRUCell(_ConvGRUCell):
    """A gated recurrent unit over volumes (n, c, d, h, w): see `_ConvCell`."""

    _dims = 3
