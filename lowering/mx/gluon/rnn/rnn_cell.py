"""Recurrent cells: blocks of (input of a step, states) that give (output, states), and unroll over sequences.

Names of parameters and of nodes, and the order of the gates, are MXNet's, so that its files fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lowering.messages.counts import checks_flags
from lowering.mx import ndarray, symbol
from lowering.mx.accepted_types import AxisLike, InitializerLike
from lowering.mx.base import numeric_types
from lowering.mx.gluon.block import Block
from lowering.mx.gluon.gluon_errors import BlockValueError
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.nn import LeakyReLU
from lowering.mx.gluon.rnn.sequences import TENSORS
from lowering.mx.gluon.rnn.sequences import begin_state_of as _get_begin_state
from lowering.mx.gluon.rnn.sequences import format_sequence as _format_sequence
from lowering.mx.gluon.rnn.sequences import mask_sequence as _mask_sequence_variable_length
from lowering.mx.gluon.rnn.sequences import reverse_sequences as _reverse_sequences
from lowering.mx.gluon.structure import converted
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.ndarray.array import CLASSIC, current_dialect
from lowering.mx.shared_arguments import explained_by
from lowering.mx.util import np_array

States = list[Any]

_FUNCTIONS = ("tanh", "relu", "sigmoid", "softsign")
"""Activations that are operators of their own."""

_MODIFIED = (
    "After applying modifier cells (e.g. {}) the base cell cannot be called directly. Call the modifier cell instead."
)


def activated(F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
    """Return an activation, by its name or as a block, applied."""
    if isinstance(activation, str):
        if activation in _FUNCTIONS:
            return getattr(F, activation)(inputs, **kwargs)
        return F.Activation(inputs, act_type=activation, **kwargs)
    if isinstance(activation, LeakyReLU):
        return F.LeakyReLU(inputs, act_type="leaky", slope=activation.slope, **kwargs)
    return activation(inputs)


def _cells_state_info(cells: Iterable[Any], batch_size: int) -> list[Any]:
    return [info for cell in cells for info in cell.state_info(batch_size)]


def _cells_begin_state(cells: Iterable[Any], **kwargs: Any) -> States:
    return [state for cell in cells for state in cell.begin_state(**kwargs)]


def check_states(cell: Any, states: Any) -> None:
    """Raise BlockValueError where a call of a cell or a layer has other states than it keeps, in number."""
    count = len(cell.state_info())
    if isinstance(states, list | tuple) and len(states) != count:
        needs = "needs more states" if len(states) < count else "has fewer states"
        problem = f"{type(cell).__name__} {cell.name} {needs} than were given"
        raise BlockValueError(problem, expected=count, got=len(states), fix="states = cell.begin_state(batch_size=…)")


@explained_by(Block)
class RecurrentCell(Block):
    """The base class of cells: (input (n, c) of a step, states) → (output, states).

    A subclass defines `state_info` and `forward`, or `hybrid_forward`. A cell counts its steps: call `reset` before
    another sequence, as `unroll` does.
    """

    _children: Any
    _prefix: str

    def __init__(self, prefix: str | None = None, params: Any = None):
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Start counting steps and states again."""
        self._init_counter = self._counter = -1
        for cell in self._children.values():
            cell.reset()

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """Return {"shape": …, "__layout__": …} for each state."""
        raise NotImplementedError(f"{type(self).__name__} must define state_info")

    def begin_state(self, batch_size: int = 0, func: Any = ndarray.zeros, **kwargs: Any) -> States:
        """Return the states before the first step.

        Args:
            batch_size: the number of samples.
            func: makes each state from its description: `mx.nd.zeros`, or `mx.sym.zeros` for symbols.
            kwargs: further arguments of `func`.
        """
        assert not self._modified, _MODIFIED.format("ZoneoutCell")
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **{**(info or {}), **kwargs}))
        return converted(states, current_dialect())

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, States]:
        """Run the cell over a sequence.

        Args:
            length: the number of steps.
            inputs: the sequence in a layout, (n, t, c) for "NTC", or a list of steps (n, c).
            begin_state: the states before the first step; None for zeros.
            layout: the order of the sequence's axes.
            merge_outputs: True for outputs in one tensor, False for a list; None for a list, or what a subclass finds
                cheaper.
            valid_length: the lengths (n,) of the sequences. Outputs after them are 0, and the states are those at their
                ends.

        Returns:
            The outputs and the last states.
        """
        self.reset()
        dialect = current_dialect()
        with np_array(False):
            inputs, begin_state, valid_length = converted((inputs, begin_state, valid_length), CLASSIC)
            unrolled = self._unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        return converted(unrolled, dialect)

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None, valid_length: Any
    ) -> tuple[Any, States]:
        """Run one step after the other. Cells that unroll otherwise override it."""
        inputs, axis, F, batch_size = _format_sequence(length, inputs, layout, False)
        states = _get_begin_state(self, F, begin_state, inputs, batch_size)
        outputs: Any = []
        all_states = []
        for i in range(length):
            output, states = self(inputs[i], states)
            outputs.append(output)
            all_states.append(states)
        if valid_length is not None:
            states = [
                F.SequenceLast(F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True, axis=0)
                for steps in zip(*all_states, strict=True)
            ]
            outputs = _mask_sequence_variable_length(F, outputs, length, valid_length, axis, True)
        outputs, *_ = _format_sequence(length, outputs, layout, merge_outputs)
        return outputs, states

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """Return an activation, by its name or as a block, applied."""
        return activated(F, inputs, activation, **kwargs)

    def forward(self, x: Any, *args: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run one step and return its output and states."""
        self._counter += 1
        return super().forward(x, *args)


@explained_by(Block)
class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """The base class of hybrid cells: a subclass defines `hybrid_forward(F, inputs, states, **parameters)`."""

    def hybrid_forward(self, F: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Run one step."""
        raise NotImplementedError(f"{type(self).__name__} must define hybrid_forward")

    @property
    def step(self) -> str:
        """Return the beginning of the names of a step's nodes."""
        return f"t{self._counter}_"


class GatedCell(HybridRecurrentCell):
    """A cell of two products, of the input and of the output before: what RNN, LSTM and GRU share.

    Parameters are i2h_weight (gates · hidden, input), h2h_weight (gates · hidden, output), i2h_bias, h2h_bias, and
    those of `extra`, by name: (shape, initialiser).
    """

    _gates = 1
    _states = 1
    _hint = "rnn"
    i2h_weight: Any

    def __init__(
        self,
        hidden_size: int,
        initializers: tuple[Any, Any, Any, Any],
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
        output_size: int | None = None,
        extra: dict[str, tuple[Any, Any]] | None = None,
    ):
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._input_size = hidden_size, input_size
        self._output_size = hidden_size if output_size is None else output_size
        width = self._gates * hidden_size
        shapes = (width, input_size), (width, self._output_size), (width,), (width,)
        names = "i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"
        declarations = dict(zip(names, zip(shapes, initializers, strict=True), strict=True))
        for name in sorted(declarations | (extra or {}), key=lambda name: name.endswith("bias")):
            shape, init = (declarations | (extra or {}))[name]
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """Return the output (n, c), and of an LSTM the cell (n, c)."""
        sizes = (self._output_size, self._hidden_size)[: self._states]
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in sizes]

    def forward(self, x: Any, *args: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step: (output, states) of an input and states."""
        if args:
            check_states(self, args[0])
        return super().forward(x, *args)

    def _alias(self) -> str:
        return self._hint

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping()})"

    def _mapping(self) -> str:
        rows, columns = self.i2h_weight.shape
        return f"{columns if columns else None} -> {rows}"

    def products(self, F: Any, inputs: Any, state: Any, **parameters: Any) -> list[Any]:
        """Return the products of the input, and of the output before, with their weights."""
        return [
            F.FullyConnected(
                data=data,
                weight=parameters[f"{name}_weight"],
                bias=parameters[f"{name}_bias"],
                num_hidden=self._hidden_size * self._gates,
                name=f"{self.step}{name}",
            )
            for name, data in (("i2h", inputs), ("h2h", state))
        ]


@explained_by(Block)
class RNNCell(GatedCell):
    """A plain recurrent cell: h' = activation(W x + b + U h + c).

    Args:
        hidden_size: the number of features of the state.
        activation: a name, such as "relu", or a block.
        i2h_weight_initializer: the initialiser of the weights for the input; None for the network's.
        h2h_weight_initializer: the initialiser of the weights for the state; None for the network's.
        i2h_bias_initializer: the initialiser of the biases for the input.
        h2h_bias_initializer: the initialiser of the biases for the state.
        input_size: the number of features of the input; 0: the first call decides.
    """

    def __init__(
        self,
        hidden_size: int,
        activation: Any = "tanh",
        i2h_weight_initializer: InitializerLike = None,
        h2h_weight_initializer: InitializerLike = None,
        i2h_bias_initializer: InitializerLike = "zeros",
        h2h_bias_initializer: InitializerLike = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ):
        initializers = i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        super().__init__(hidden_size, initializers, input_size, prefix, params)
        self._activation = activation

    def __repr__(self) -> str:
        return f"RNNCell({self._mapping()}, {self._activation})"

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any, **parameters: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step."""
        i2h, h2h = self.products(F, inputs, states[0], **parameters)
        total = F.elemwise_add(i2h, h2h, name=f"{self.step}plus0")
        output = self._get_activation(F, total, self._activation, name=f"{self.step}out")
        return output, [output]


@explained_by(RNNCell)
class LSTMCell(GatedCell):
    """A cell of long short-term memory (Hochreiter, Schmidhuber 1997); its states are (output, cell).

    Args:
        activation: the activation of new values, a name or a block.
        recurrent_activation: the activation of gates, a name or a block.
    """

    _gates, _states, _hint = 4, 2, "lstm"

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: InitializerLike = None,
        h2h_weight_initializer: InitializerLike = None,
        i2h_bias_initializer: InitializerLike = "zeros",
        h2h_bias_initializer: InitializerLike = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ):
        initializers = i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        super().__init__(hidden_size, initializers, input_size, prefix, params)
        self._activation, self._recurrent_activation = activation, recurrent_activation

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any, **parameters: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step."""
        t = self.step
        i2h, h2h = self.products(F, inputs, states[0], **parameters)
        gates = F.SliceChannel(F.elemwise_add(i2h, h2h, name=f"{t}plus0"), num_outputs=4, name=f"{t}slice")
        kinds = {"i": self._recurrent_activation, "f": self._recurrent_activation, "c": self._activation}
        pairs = zip(gates, {**kinds, "o": self._recurrent_activation}.items(), strict=True)
        i, f, c, o = (self._get_activation(F, gate, kind, name=f"{t}{letter}") for gate, (letter, kind) in pairs)
        remembered, added = F.elemwise_mul(f, states[1], name=f"{t}mul0"), F.elemwise_mul(i, c, name=f"{t}mul1")
        cell = F.elemwise_add(remembered, added, name=f"{t}state")
        if isinstance(self._activation, str):
            squashed = F.Activation(cell, act_type=self._activation, name=f"{t}activation0")
        else:
            squashed = activated(F, cell, self._activation, name=f"{t}activation0")
        output = F.elemwise_mul(o, squashed, name=f"{t}out")
        return output, [output, cell]


@explained_by(RNNCell)
class GRUCell(GatedCell):
    """A gated recurrent unit (Cho et al. 2014), with the reset gate applied after the product, as in cuDNN."""

    _gates, _hint = 3, "gru"

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: InitializerLike = None,
        h2h_weight_initializer: InitializerLike = None,
        i2h_bias_initializer: InitializerLike = "zeros",
        h2h_bias_initializer: InitializerLike = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ):
        initializers = i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        super().__init__(hidden_size, initializers, input_size, prefix, params)

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any, **parameters: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step."""
        t = self.step
        i2h, h2h = self.products(F, inputs, states[0], **parameters)
        i2h_r, i2h_z, i2h = F.SliceChannel(i2h, num_outputs=3, name=f"{t}i2h_slice")
        h2h_r, h2h_z, h2h = F.SliceChannel(h2h, num_outputs=3, name=f"{t}h2h_slice")
        reset = F.elemwise_add(i2h_r, h2h_r, name=f"{t}plus0")
        reset = F.Activation(reset, act_type="sigmoid", name=f"{t}r_act")
        update = F.elemwise_add(i2h_z, h2h_z, name=f"{t}plus1")
        update = F.Activation(update, act_type="sigmoid", name=f"{t}z_act")
        new = F.elemwise_add(i2h, F.elemwise_mul(reset, h2h, name=f"{t}mul0"), name=f"{t}plus2")
        new = F.Activation(new, act_type="tanh", name=f"{t}h_act")
        complement = F.elemwise_sub(F.ones_like(update, name=f"{t}ones_like0"), update, name=f"{t}minus0")
        parts = F.elemwise_mul(complement, new, name=f"{t}mul1"), F.elemwise_mul(update, states[0], name=f"{t}mul20")
        output = F.elemwise_add(*parts, name=f"{t}out")
        return output, [output]


class _Stack(RecurrentCell):
    """Holds cells, each taking the outputs of the one before."""

    def __repr__(self) -> str:
        lines = (f"({name}): {cell!r}".replace("\n", "\n  ") for name, cell in self._children.items())
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"

    def add(self, cell: Any) -> None:
        """Put a cell on top."""
        self.register_child(cell)

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """Return the states of all cells."""
        return _cells_state_info(self._children.values(), batch_size)

    def begin_state(self, **kwargs: Any) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the states of all cells to begin with."""
        assert not self._modified, _MODIFIED.format("ZoneoutCell")
        return _cells_begin_state(self._children.values(), **kwargs)

    def _with_states(self, states: Any) -> Iterable[tuple[Any, Any]]:
        """Return each cell with its states."""
        start = 0
        for cell in self._children.values():
            end = start + len(cell.state_info())
            yield cell, states[start:end]
            start = end

    def __call__(self, inputs: Any, states: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self._counter += 1
        assert not any(isinstance(cell, BidirectionalCell) for cell in self._children.values()), (
            "Bidirectional cells cannot be stepped. Please use unroll"
        )
        new: States = []
        for cell, own in self._with_states(states):
            inputs, own = cell(inputs, own)
            new.extend(own)
        return inputs, new

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None, valid_length: Any
    ) -> tuple[Any, States]:
        """Run as `RecurrentCell.unroll` does: each cell is unrolled before the next."""
        inputs, _, F, batch_size = _format_sequence(length, inputs, layout, None)
        states = _get_begin_state(self, F, begin_state, inputs, batch_size)
        last, new = len(self._children) - 1, []
        for i, (cell, own) in enumerate(self._with_states(states)):
            merge = merge_outputs if i == last else None
            inputs, own = cell.unroll(length, inputs, own, layout, merge, valid_length)
            new.extend(own)
        return inputs, new

    def __getitem__(self, i: int) -> Any:
        return self._children[str(i)]

    def __len__(self) -> int:
        return len(self._children)


@explained_by(Block)
class SequentialRNNCell(_Stack):
    """A stack of cells of any kind; `add(cell)` puts one on top."""


@explained_by(Block)
class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A stack of hybrid cells; `add(cell)` puts one on top."""

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step."""
        return self(inputs, states)


@explained_by(Block)
class DropoutCell(HybridRecurrentCell):
    """Dropout of the inputs, without states.

    Args:
        rate: the probability of dropping an element.
        axes: the axes along which all elements are dropped together.
    """

    def __init__(self, rate: float, axes: AxisLike = (), prefix: str | None = None, params: Any = None):
        super().__init__(prefix, params)
        assert isinstance(rate, numeric_types), "rate must be a number"
        self._rate, self._axes = rate, axes

    def __repr__(self) -> str:
        return f"DropoutCell(rate={self._rate}, axes={self._axes})"

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """Return an empty list: there are no states."""
        return []

    def _alias(self) -> str:
        return "dropout"

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step."""
        if self._rate > 0:
            inputs = F.Dropout(data=inputs, p=self._rate, axes=self._axes, name=f"{self.step}fwd")
        return inputs, states

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None, valid_length: Any
    ) -> tuple[Any, States]:
        """Unroll as `RecurrentCell.unroll` does; a sequence that is one tensor is dropped out at once."""
        inputs, _, F, _ = _format_sequence(length, inputs, layout, merge_outputs)
        if isinstance(inputs, TENSORS):
            return self.hybrid_forward(F, inputs, begin_state or [])
        return super()._unroll(length, inputs, begin_state, layout, merge_outputs, None)


class ModifierCell(HybridRecurrentCell):
    """The base class of cells that change what another cell does; they have that cell's parameters.

    Args:
        base_cell: the other cell.
    """

    @checks_flags
    def __init__(self, base_cell: RecurrentCell):
        assert not base_cell._modified, f"Cell {base_cell.name} is already modified. One cell cannot be modified twice"
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> Any:
        """Return the parameters of the base cell."""
        return self.base_cell.params

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """Return the states of the base cell."""
        return self.base_cell.state_info(batch_size)

    def begin_state(self, func: Any = symbol.zeros, **kwargs: Any) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the base cell's states before the first step.

        Args:
            func: makes each state; the default makes symbols.
            kwargs: further arguments of `func`.
        """
        assert not self._modified, _MODIFIED.format("DropoutCell")
        self.base_cell._modified = False
        begin = self.base_cell.begin_state(func=func, **kwargs)
        self.base_cell._modified = True
        return begin

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell})"


def refuse_bidirectional(base_cell: Any, what: str, modifier: str) -> None:
    """Raise AssertionError for a bidirectional cell, or a stack with one: they take no steps."""
    cells = base_cell._children.values() if isinstance(base_cell, _Stack) else [base_cell]
    assert not any(isinstance(cell, BidirectionalCell) for cell in cells), (
        f"BidirectionalCell doesn't support {what} since it doesn't support step. Please add {modifier} to the cells "
        "underneath instead."
    )


class ZoneoutCell(ModifierCell):
    """Zoneout (Krueger et al. 2016): some outputs and states randomly keep the values of the step before.

    Args:
        base_cell: the cell.
        zoneout_outputs: the probability for an element of the output.
        zoneout_states: the probability for an element of a state.
    """

    def __init__(self, base_cell: Any, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0):
        refuse_bidirectional(base_cell, "zoneout", "ZoneoutCell")
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states
        self._prev_output: Any = None

    def __repr__(self) -> str:
        return f"ZoneoutCell(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, {self.base_cell})"

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        """Start again: there is no step before."""
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step."""
        output, new_states = self.base_cell(inputs, states)

        def mixed(p: float, new: Any, old: Any) -> Any:
            return F.where(F.Dropout(F.ones_like(new), p=p), new, old) if p else new

        before = F.zeros_like(output) if self._prev_output is None else self._prev_output
        output = mixed(self.zoneout_outputs, output, before)
        pairs = zip(new_states, states, strict=True)
        self._prev_output = output
        return output, [mixed(self.zoneout_states, new, old) for new, old in pairs]


class ResidualCell(ModifierCell):
    """A cell whose inputs are added to its outputs (Wu et al. 2016)."""

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step."""
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"{self.step}fwd"), states

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None, valid_length: Any
    ) -> tuple[Any, States]:
        """Unroll the base cell, and add the inputs to its outputs."""
        self.base_cell._modified = False
        outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.base_cell._modified = True
        merge = isinstance(outputs, TENSORS) if merge_outputs is None else merge_outputs
        inputs, axis, F, _ = _format_sequence(length, inputs, layout, merge)
        if valid_length is not None:
            inputs = _mask_sequence_variable_length(F, inputs, length, valid_length, axis, merge)
        if merge:
            return F.elemwise_add(outputs, inputs), states
        return [F.elemwise_add(output, step_input) for output, step_input in zip(outputs, inputs, strict=True)], states


class BidirectionalCell(HybridRecurrentCell):
    """Two cells: the second reads the sequence backwards, and the output has both results side by side.

    It can only `unroll`.

    Args:
        l_cell: the cell that goes forwards.
        r_cell: the cell that goes backwards.
        output_prefix: the prefix of the output's name.
    """

    def __init__(self, l_cell: Any, r_cell: Any, output_prefix: str = "bi_"):
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Raise NotImplementedError: both ends of a sequence are needed."""
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self) -> str:
        return "BidirectionalCell(forward={l_cell}, backward={r_cell})".format(**self._children)

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """Return the states of both cells."""
        return _cells_state_info(self._children.values(), batch_size)

    def begin_state(self, **kwargs: Any) -> States:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the states of both cells before the first step."""
        assert not self._modified, _MODIFIED.format("DropoutCell")
        return _cells_begin_state(self._children.values(), **kwargs)

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None, valid_length: Any
    ) -> tuple[Any, States]:
        """Unroll as `RecurrentCell.unroll` does. With valid_length each sequence is read backwards from its own end."""
        inputs, axis, F, batch_size = _format_sequence(length, inputs, layout, False)
        backwards = _reverse_sequences(inputs, length, valid_length)
        states = _get_begin_state(self, F, begin_state, inputs, batch_size)
        left, right = self._children.values()
        own = len(left.state_info(batch_size))
        l_outputs, l_states = left.unroll(length, inputs, states[:own], layout, merge_outputs, valid_length)
        r_outputs, r_states = right.unroll(length, backwards, states[own:], layout, False, valid_length)
        r_outputs = _reverse_sequences(r_outputs, length, valid_length)
        if merge_outputs is None:
            merge_outputs = isinstance(l_outputs, TENSORS)
            l_outputs, *_ = _format_sequence(None, l_outputs, layout, merge_outputs)
            r_outputs, *_ = _format_sequence(None, r_outputs, layout, merge_outputs)
        if merge_outputs:
            r_outputs = r_outputs if isinstance(r_outputs, TENSORS) else F.stack(*r_outputs, axis=axis)
            outputs = F.concat(l_outputs, r_outputs, dim=2, name=f"{self._output_prefix}out")
        else:
            pairs = enumerate(zip(l_outputs, r_outputs, strict=True))
            outputs = [F.concat(*pair, dim=1, name=f"{self._output_prefix}t{i}") for i, pair in pairs]
        if valid_length is not None:
            outputs = _mask_sequence_variable_length(F, outputs, length, valid_length, axis, merge_outputs)
        return outputs, l_states + r_states
