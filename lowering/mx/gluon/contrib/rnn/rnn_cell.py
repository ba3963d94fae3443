"""Contributed cells: VariationalDropoutCell, LSTMPCell; and cells unrolled by a loop in the graph."""

from __future__ import annotations

from functools import partial
from typing import Any

from lowering.mx.accepted_types import InitializerLike
from lowering.mx.gluon.rnn.rnn_cell import GatedCell, ModifierCell, States, refuse_bidirectional
from lowering.mx.gluon.rnn.sequences import TENSORS, begin_state_of, format_sequence, mask_sequence
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.rnn.formulas import lstm

__all__ = ["LSTMPCell", "VariationalDropoutCell", "dynamic_unroll"]


class VariationalDropoutCell(ModifierCell):
    """Dropout whose masks are the same at all steps (Gal, Ghahramani 2016), of inputs, first state and outputs."""

    def __init__(self, base_cell: Any, drop_inputs: float = 0.0, drop_states: float = 0.0, drop_outputs: float = 0.0):
        if drop_states:
            refuse_bidirectional(base_cell, "variational state dropout", "VariationalDropoutCell")
        super().__init__(base_cell)
        self.drop_inputs, self.drop_states, self.drop_outputs = drop_inputs, drop_states, drop_outputs
        self._masks: dict[str, Any] = {}

    def _alias(self) -> str:
        return "vardrop"

    def reset(self) -> None:
        """Begin anew, with other masks."""
        super().reset()
        self._masks = {}

    def _dropped(self, F: Any, what: str, value: Any) -> Any:
        """Return a value times its mask, which is drawn at the first step."""
        p = getattr(self, f"drop_{what}")
        if not p:
            return value
        if what not in self._masks:
            self._masks[what] = F.Dropout(F.ones_like(value), p=p)
        return value * self._masks[what]

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step."""
        first = self._dropped(F, "states", states[0])
        output, states = self.base_cell(self._dropped(F, "inputs", inputs), [first, *states[1:]])
        return self._dropped(F, "outputs", output), states

    def __repr__(self) -> str:
        return f"VariationalDropoutCell(p_out = {self.drop_outputs}, p_state = {self.drop_states})"

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None, valid_length: Any
    ) -> tuple[Any, States]:
        """Unroll as `RecurrentCell.unroll` does; if no state is dropped out, whole sequences are dropped out at
        once."""
        if self.drop_states:
            return super()._unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, True)
        states = begin_state_of(self, F, begin_state, inputs, batch_size)
        if self.drop_inputs:
            inputs = F.Dropout(inputs, p=self.drop_inputs, axes=(axis,))
        outputs, states = self.base_cell.unroll(length, inputs, states, layout, True, valid_length)
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = isinstance(outputs, TENSORS) if merge_outputs is None else merge_outputs
        outputs, *_ = format_sequence(length, outputs, layout, merge)
        if valid_length is not None:
            outputs = mask_sequence(F, outputs, length, valid_length, axis, merge)
        return outputs, states


class LSTMPCell(GatedCell):
    """LSTM whose output is a product with h2r_weight (projection, hidden) (Sak et al. 2014); states (output, cell)."""

    _gates, _states, _hint = 4, 2, "lstmp"

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: InitializerLike = None,
        h2h_weight_initializer: InitializerLike = None,
        h2r_weight_initializer: InitializerLike = None,
        i2h_bias_initializer: InitializerLike = "zeros",
        h2h_bias_initializer: InitializerLike = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ):
        initializers = i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        extra = {"h2r_weight": ((projection_size, hidden_size), h2r_weight_initializer)}
        super().__init__(hidden_size, initializers, input_size, prefix, params, projection_size, extra)
        self._projection_size = projection_size

    def _mapping(self) -> str:
        return f"{super()._mapping()} -> {self._projection_size}"

    def hybrid_forward(self, F: Any, inputs: Tensor, states: Any, h2r_weight: Tensor, **parameters: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One step."""
        t = self.step
        i2h, h2h = self.products(F, inputs, states[0], **parameters)
        tanh = partial(F.Activation, act_type="tanh")
        hidden, cell = lstm(F, i2h + h2h, states[1], t, tanh, output="hidden")
        output = F.FullyConnected(
            data=hidden, num_hidden=self._projection_size, weight=h2r_weight, no_bias=True, name=f"{t}out"
        )
        return output, [output, cell]


def dynamic_unroll(
    cell: Any,
    inputs: Any,
    begin_state: Any,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Any = None,
) -> tuple[Any, Any]:
    """(outputs, last states) of a cell over a sequence of any length, by `contrib.foreach`: one loop in the graph.

    inputs: (t, n, c) for layout "TNC", (n, t, c) for "NTC". drop_inputs, drop_outputs: dropout with one mask for all
    steps. valid_length: the lengths (n,) of the sequences.
    """
    inputs, axis, F, _ = format_sequence(0, inputs, layout, True)
    axes = list(range(len(layout)))
    axes[0], axes[axis] = axes[axis], axes[0]
    if axis != 0:
        inputs = F.transpose(inputs, axes=axes)
    if drop_inputs:
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(axis,))
    states, body = begin_state, cell
    if valid_length is not None:
        states = [*(states if isinstance(states, list | tuple) else [states]), F.zeros((1,))]

        def body(step: Any, states: Any) -> Any:
            *own, number = states
            output, new = cell(step, own)
            runs = F.broadcast_greater(valid_length, number)
            return output, [*(F.where(runs, *pair) for pair in zip(new, own, strict=True)), number + 1]

    outputs, states = F.contrib.foreach(body, inputs, states)
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(axis,))
    if axis != 0:
        outputs = F.transpose(outputs, axes)
    if valid_length is None:
        return outputs, states
    outputs = F.SequenceMask(outputs, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    return outputs, states[:-1]
