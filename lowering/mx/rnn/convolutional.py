"""Recurrent cells whose products are convolutions: ConvRNNCell, ConvLSTMCell, ConvGRUCell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from lowering.mx import symbol as sym
from lowering.mx.rnn.formulas import gru, lstm
from lowering.mx.rnn.symbol_cells import BaseRNNCell, RNNParams, States
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol import Symbol

_LEAKY = partial(sym.LeakyReLU, act_type="leaky", slope=0.2)


@explained_by(BaseRNNCell)
class BaseConvRNNCell(BaseRNNCell):
    """The base class of cells with convolutions.

    Args:
        input_shape: the shape of one step's batch of any size, (n, channels, height, width) for layout "NCHW".
        num_hidden: the number of channels of a state.
        h2h_kernel: the kernel's size of the state's convolution; odd.
        h2h_dilate: the dilation of the state's convolution.
        i2h_kernel: the kernel's size of the input's convolution.
        i2h_stride: the strides of the input's convolution.
        i2h_pad: the padding of the input's convolution.
        i2h_dilate: the dilation of the input's convolution.
        i2h_weight_initializer: the initialiser of the weights for the input; None for the network's.
        h2h_weight_initializer: the initialiser of the weights for the state; None for the network's.
        i2h_bias_initializer: the initialiser of the biases for the input.
        h2h_bias_initializer: the initialiser of the biases for the state.
        activation: a name, or a function of a symbol.
        conv_layout: the order of the axes: "NCHW" or "NHWC".

    Raises:
        AssertionError: the state's kernel has an even size.
    """

    default_prefix = ""

    def __init__(
        self,
        input_shape: Sequence[int],
        num_hidden: int,
        h2h_kernel: Sequence[int] = (3, 3),
        h2h_dilate: Sequence[int] = (1, 1),
        i2h_kernel: Sequence[int] = (3, 3),
        i2h_stride: Sequence[int] = (1, 1),
        i2h_pad: Sequence[int] = (1, 1),
        i2h_dilate: Sequence[int] = (1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        activation: Any = _LEAKY,
        prefix: str | None = None,
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ):
        super().__init__(self.default_prefix if prefix is None else prefix, params)
        assert all(size % 2 for size in h2h_kernel), f"Only support odd number, get h2h_kernel= {h2h_kernel}"
        self._num_hidden, self._conv_layout, self._activation = num_hidden, conv_layout, activation
        pad = tuple(dilate * (size - 1) // 2 for dilate, size in zip(h2h_dilate, h2h_kernel, strict=True))
        self._convolutions = {
            "i2h": {"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad, "dilate": i2h_dilate},
            "h2h": {"kernel": h2h_kernel, "stride": (1, 1), "pad": pad, "dilate": h2h_dilate},
        }
        data, options = sym.Variable("data"), self._convolutions["i2h"]
        like = sym.Convolution(data, num_filter=num_hidden, layout=conv_layout, **options)
        _, shapes, _ = like.infer_shape(data=tuple(input_shape))
        self._state_shape = (0, *shapes[0][1:])
        self._iW = self.params.get("i2h_weight", init=i2h_weight_initializer)
        self._iB = self.params.get("i2h_bias", init=i2h_bias_initializer)
        self._hW = self.params.get("h2h_weight", init=h2h_weight_initializer)
        self._hB = self.params.get("h2h_bias", init=h2h_bias_initializer)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Return the shape and layout of the state."""
        return [{"shape": self._state_shape, "__layout__": self._conv_layout}]

    def _products(self, inputs: Symbol, state: Symbol) -> tuple[str, Symbol, Symbol]:
        """Return (beginning of the step's names, convolution of the input, of the state)."""
        self._counter += 1
        name = f"{self._prefix}t{self._counter}_"

        def product(group: str, data: Symbol, weight: Symbol, bias: Symbol) -> Symbol:
            return sym.Convolution(
                name=f"{name}{group}",
                data=data,
                weight=weight,
                bias=bias,
                num_filter=self._num_hidden * len(self._gate_names),
                layout=self._conv_layout,
                **self._convolutions[group],
            )

        i2h, h2h = product("i2h", inputs, self._iW, self._iB), product("h2h", state, self._hW, self._hB)
        return name, i2h, h2h

    def _squash(self, values: Symbol, **name: str) -> Symbol:
        return self._get_activation(values, self._activation, **name)


@explained_by(BaseConvRNNCell)
class ConvRNNCell(BaseConvRNNCell):
    """A plain recurrent cell with convolutions: h' = activation(W * x + U * h + b)."""

    _gate_names = ("",)
    default_prefix = "ConvRNN_"

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step."""
        name, i2h, h2h = self._products(inputs, states[0])
        output = self._squash(i2h + h2h, name=f"{name}out")
        return output, [output]


@explained_by(BaseConvRNNCell)
class ConvLSTMCell(BaseConvRNNCell):
    """Long short-term memory with convolutions (Shi et al. 2015); its states are (output, cell)."""

    _gate_names = ("_i", "_f", "_c", "_o")
    default_prefix = "ConvLSTM_"

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Return the shapes and layouts of output and cell."""
        return super().state_info * 2

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step."""
        name, i2h, h2h = self._products(inputs, states[0])
        axis = self._conv_layout.find("C")
        output, cell = lstm(sym, i2h + h2h, states[1], name, self._squash, axis=axis)
        return output, [output, cell]


@explained_by(BaseConvRNNCell)
class ConvGRUCell(BaseConvRNNCell):
    """A gated recurrent unit with convolutions."""

    _gate_names = ("_r", "_z", "_o")
    default_prefix = "ConvGRU_"

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step."""
        name, i2h, h2h = self._products(inputs, states[0])
        channels = self._conv_layout.find("C")
        axis = {} if channels == 1 else {"axis": channels}  # the default is not written, as by MXNet
        output = gru(sym, i2h, h2h, states[0], name, self._squash, separator="_", **axis)
        return output, [output]
