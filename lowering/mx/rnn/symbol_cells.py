"""Recurrent cells that unroll into symbols: RNNCell, LSTMCell, GRUCell, and what all cells share.

Names of nodes and parameters, and the order of the gates, are MXNet's, so that its files fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from lowering.messages.counts import checks_flags
from lowering.mx import symbol as sym
from lowering.mx.init import LSTMBias
from lowering.mx.ndarray import NDArray, concatenate
from lowering.mx.rnn.formulas import gru, lstm
from lowering.mx.shared_arguments import explained_by
from lowering.mx.symbol import Symbol
from symjax_nnvm.errors import ComposeError

_TANH = partial(sym.Activation, act_type="tanh")
Params = dict[str, NDArray]
States = list[Any]


class RNNParams:
    """The variables of a cell, made when they are first needed; cells that share them share weights.

    Args:
        prefix: the beginning of the variables' names.
    """

    def __init__(self, prefix: str = ""):
        self.prefix = prefix
        self._params: dict[str, Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """Return a variable.

        Args:
            name: its name without the prefix.
            kwargs: arguments of `Variable`.
        """
        name = self.prefix + name
        if name not in self._params:
            self._params[name] = sym.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """The base class of cells: `cell(input, states)` returns (output, new states).

    Args:
        prefix: the beginning of the variables' names.
        params: the RNNParams of another cell, whose weights it shares.
    """

    _gate_names: Sequence[str] = ()

    @checks_flags
    def __init__(self, prefix: str = "", params: RNNParams | None = None):
        self._prefix = prefix
        self._own_params = params is None
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Start counting steps again, as each `unroll` does."""
        self._init_counter = self._counter = -1

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step."""
        raise ComposeError(f"{type(self).__name__} cannot be stepped", fix="Please use unroll.")

    @property
    def params(self) -> RNNParams:
        """Return the cell's variables, for another cell to share."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Return the shape and the layout of each state; the batch's size is 0."""
        return []

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Return the shape of each state."""
        return [info["shape"] for info in self.state_info]

    def begin_state(self, func: Callable[..., Symbol] | None = None, **kwargs: Any) -> States:
        """Return the states before the first step.

        Args:
            func: makes each state, as func(name=, shape=, …); None for zeros.
            kwargs: further arguments of `func`.
        """
        if self._modified:
            problem = "After applying modifier cells the base cell cannot be called directly"
            raise ComposeError(problem, fix="Call the modifier cell instead.")
        make, states = func or sym.zeros, []
        for info in self.state_info:
            self._init_counter += 1
            states.append(make(name=f"{self._prefix}begin_state_{self._init_counter}", **kwargs, **info))
        return states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, States]:
        """Run the cell over a sequence.

        Args:
            length: the number of steps.
            inputs: a symbol in the layout, or a list of symbols, one for each step.
            begin_state: the states before the first step; None for zeros.
            layout: the order of the axes; T is the axis of steps.
            merge_outputs: True for outputs in one symbol, False for a list, None for whichever is cheaper.

        Returns:
            The outputs and the last states.
        """
        self.reset()
        return self._unroll(length, inputs, begin_state, layout, merge_outputs)

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None
    ) -> tuple[Any, States]:
        """Run one step after the other. Cells that unroll otherwise override it."""
        inputs, _ = normalized(length, inputs, layout, merge=False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for step in range(length):
            output, states = self(inputs[step], states)
            outputs.append(output)
        return normalized(length, outputs, layout, merge_outputs)[0], states

    # -- weights in files --------------------------------------------------------------------------------------------

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Params:
        """Return arguments with the weights of each gate in an array of their own."""
        return self._exchanged(args, unpack=True)

    def pack_weights(self, args: Mapping[str, NDArray]) -> Params:
        """Return arguments with the weights of all gates in one array, as the cell has them."""
        return self._exchanged(args, unpack=False)

    def _get_activation(self, inputs: Symbol, activation: Any, **kwargs: Any) -> Symbol:
        """Return an activation by its name, or a function of a symbol; kwargs: the node's name. For subclasses."""
        if isinstance(activation, str):
            return sym.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)

    def _exchanged(self, args: Mapping[str, NDArray], *, unpack: bool) -> Params:
        exchanged = dict(args)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                whole = f"{self._prefix}{group}_{kind}"
                parts = [f"{self._prefix}{group}{gate}_{kind}" for gate in self._gate_names]
                if unpack:
                    value = exchanged.pop(whole)
                    size = value.shape[0] // len(parts)
                    exchanged |= {part: value[i * size : (i + 1) * size].copy() for i, part in enumerate(parts)}
                else:
                    exchanged[whole] = concatenate([exchanged.pop(part) for part in parts])
        return exchanged


def normalized(
    length: int | None, inputs: Any, layout: str, merge: bool | None, in_layout: str | None = None
) -> tuple[Any, int]:
    """(a symbol of all steps, or a list with one for each, the axis of steps). merge: which; None: as it comes."""
    if not isinstance(inputs, Symbol | list | tuple):
        problem = "unroll needs one symbol of all steps, or a list with one symbol for each step"
        raise ComposeError(problem, got=type(inputs).__name__, fix="Create input variables outside unroll.")
    axis = layout.find("T")
    in_axis = axis if in_layout is None else in_layout.find("T")
    if isinstance(inputs, Symbol):
        if merge is False:
            inputs = list(sym.split(inputs, axis=in_axis, num_outputs=length, squeeze_axis=1))
    elif length is not None and len(inputs) != length:
        raise ComposeError("unroll needs one input for each step", expected=length, got=len(inputs))
    elif merge is True:
        inputs = sym.Concat(*(sym.expand_dims(step, axis=axis) for step in inputs), dim=axis)
        in_axis = axis
    if isinstance(inputs, Symbol) and axis != in_axis:
        inputs = sym.swapaxes(inputs, dim0=axis, dim1=in_axis)
    return inputs, axis


class _Gated(BaseRNNCell):
    """A cell whose gates are one product with the input, and one with the state."""

    @checks_flags
    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None, **bias: Any):
        super().__init__(prefix, params)
        self._num_hidden = num_hidden
        self._iW, self._iB = self.params.get("i2h_weight"), self.params.get("i2h_bias", **bias)
        self._hW, self._hB = self.params.get("h2h_weight"), self.params.get("h2h_bias")

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Return one state."""
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def _products(self, inputs: Symbol, state: Symbol, separator: str = "") -> tuple[str, Symbol, Symbol]:
        """Return (beginning of the step's names, product with the input, with the state)."""
        self._counter += 1
        name = f"{self._prefix}t{self._counter}_"
        size = self._num_hidden * len(self._gate_names)

        def product(group: str, data: Symbol, weight: Symbol, bias: Symbol) -> Symbol:
            called = f"{name}{separator}{group}"
            return sym.FullyConnected(data=data, weight=weight, bias=bias, num_hidden=size, name=called)

        i2h, h2h = product("i2h", inputs, self._iW, self._iB), product("h2h", state, self._hW, self._hB)
        return name, i2h, h2h


@explained_by(BaseRNNCell)
class RNNCell(_Gated):
    """A plain recurrent cell: h' = activation(W x + U h + b).

    Args:
        num_hidden: the number of features of the state.
        activation: a name, or a function of a symbol.
    """

    _gate_names = ("",)

    def __init__(
        self, num_hidden: int, activation: Any = "tanh", prefix: str = "rnn_", params: RNNParams | None = None
    ):
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step."""
        name, i2h, h2h = self._products(inputs, states[0])
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


@explained_by(BaseRNNCell)
class LSTMCell(_Gated):
    """A cell of long short-term memory; its states are (output, cell).

    Args:
        num_hidden: the number of features of the state.
        forget_bias: the first value of the forget gate's bias.
    """

    _gate_names = ("_i", "_f", "_c", "_o")

    def __init__(
        self, num_hidden: int, prefix: str = "lstm_", params: RNNParams | None = None, forget_bias: float = 1.0
    ):
        super().__init__(num_hidden, prefix, params, init=LSTMBias(forget_bias=forget_bias))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Return the shapes and layouts of output and cell."""
        return super().state_info * 2

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step."""
        name, i2h, h2h = self._products(inputs, states[0])
        output, cell = lstm(sym, i2h + h2h, states[1], name, _TANH)
        return output, [output, cell]


@explained_by(RNNCell)
class GRUCell(_Gated):
    """A gated recurrent unit, as cuDNN computes it."""

    _gate_names = ("_r", "_z", "_o")

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None):
        super().__init__(num_hidden, prefix, params)

    def __call__(self, inputs: Symbol, states: States) -> tuple[Symbol, States]:
        """One step."""
        name, i2h, h2h = self._products(inputs, states[0], "_")
        output = gru(sym, i2h, h2h, states[0], name, _TANH, separator="_")
        return output, [output]
