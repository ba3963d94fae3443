"""FusedRNNCell: layers of cells as one operator `RNN`, whose parameters are one vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lowering.mx import symbol as sym
from lowering.mx.init import FusedRNN
from lowering.mx.ndarray import NDArray, zeros
from lowering.mx.rnn.composed import BidirectionalCell, DropoutCell, SequentialRNNCell
from lowering.mx.rnn.symbol_cells import BaseRNNCell, GRUCell, LSTMCell, Params, RNNCell, RNNParams, States, normalized
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import ComposeError

_GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": LSTMCell._gate_names, "gru": GRUCell._gate_names}


@explained_by(RNNCell)
class FusedRNNCell(BaseRNNCell):
    """Several layers of cells that unroll into one operator.

    Args:
        num_layers: the number of layers.
        mode: "lstm", "gru", "rnn_tanh" or "rnn_relu".
        bidirectional: run the layers in both directions.
        dropout: the probability of dropping an element between two layers.
        get_next_state: return the last states as well.
        forget_bias: in an LSTM, the first value of the forget gate's bias.
    """

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: str | None = None,
        params: RNNParams | None = None,
    ):
        if mode not in _GATES:
            raise ComposeError("No such mode of an RNN", expected=f"one of {sorted(_GATES)}", got=repr(mode))
        super().__init__(f"{mode}_" if prefix is None else prefix, params)
        self._num_hidden, self._num_layers, self._mode = num_hidden, num_layers, mode
        self._bidirectional, self._dropout, self._get_next_state = bidirectional, dropout, get_next_state
        self._forget_bias = forget_bias
        self._directions = ("l", "r") if bidirectional else ("l",)
        first = FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        self._parameter = self.params.get("parameters", init=first)
        self._vector = f"{self._params.prefix}parameters"

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Return the shapes and layouts of the output, and of an LSTM's cell, for all layers and directions."""
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(1 + (self._mode == "lstm"))]

    def _unroll(
        self, length: int, inputs: Any, begin_state: Any, layout: str, merge_outputs: bool | None
    ) -> tuple[Any, States]:
        """Unroll the cell as `BaseRNNCell.unroll` does; layout "TNC" needs no transposition."""
        inputs, axis = normalized(length, inputs, layout, merge=True)
        if axis == 1:
            inputs = sym.swapaxes(inputs, dim1=0, dim2=1)
        begin = self.begin_state() if begin_state is None else begin_state
        rnn = sym.RNN(
            data=inputs,
            parameters=self._parameter,
            **dict(zip(("state", "state_cell"), begin, strict=False)),
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=f"{self._prefix}rnn",
        )
        outputs, *states = list(rnn) if self._get_next_state else [rnn]
        if states:
            states[0].set_attrs({"__layout__": "LNC"})  # of the node, as MXNet writes it
        if axis == 1:
            outputs = sym.swapaxes(outputs, dim1=0, dim2=1)
        return normalized(length, outputs, layout, merge_outputs)[0], states

    def unfuse(self) -> SequentialRNNCell:
        """Return the same layers as single cells, which take the weights of `unpack_weights` after their own
        `pack_weights`."""
        stack = SequentialRNNCell()
        for i in range(self._num_layers):
            cells = [self._cell(f"{self._prefix}{direction}{i}_") for direction in self._directions]
            both = f"{self._prefix}bi_l{i}_"
            stack.add(BidirectionalCell(cells[0], cells[1], output_prefix=both) if self._bidirectional else cells[0])
            if self._dropout > 0 and i != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{i}_"))
        return stack

    def _cell(self, prefix: str) -> BaseRNNCell:
        match self._mode:
            case "lstm":
                return LSTMCell(self._num_hidden, prefix=prefix)
            case "gru":
                return GRUCell(self._num_hidden, prefix=prefix)
        return RNNCell(self._num_hidden, activation=self._mode.removeprefix("rnn_"), prefix=prefix)

    # -- weights in files --------------------------------------------------------------------------------------------

    def _parts(self, num_input: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield (name, shape) of each gate's weights, in the order of the vector."""
        size, layers = self._num_hidden, range(self._num_layers)
        for kind in ("weight", "bias"):
            for layer in layers:
                width = num_input if layer == 0 else size * len(self._directions)
                for direction in self._directions:
                    for group, columns in (("i2h", width), ("h2h", size)):
                        for gate in _GATES[self._mode]:
                            name = f"{self._prefix}{direction}{layer}_{group}{gate}_{kind}"
                            yield name, (size, columns) if kind == "weight" else (size,)

    def unpack_weights(self, args: Mapping[str, NDArray]) -> Params:
        """Return arguments with the weights of each gate in an array of their own."""
        weights = dict(args)
        vector = weights.pop(self._vector)
        size, both, gates = self._num_hidden, len(self._directions), len(_GATES[self._mode])
        above = (self._num_layers - 1) * (size + both * size + 2)
        start = 0
        for name, shape in self._parts(vector.size // both // size // gates - above - size - 2):
            end = start + shape[0] * (shape[1] if len(shape) == 2 else 1)
            weights[name] = vector[start:end].reshape(shape).copy()
            start = end
        return weights

    def pack_weights(self, args: Mapping[str, NDArray]) -> Params:
        """Return arguments with all weights in one vector."""
        weights = dict(args)
        first = weights[f"{self._prefix}l0_i2h{_GATES[self._mode][0]}_weight"]
        values = [weights.pop(name) for name, _ in self._parts(first.shape[1])]
        vector = zeros((sum(value.size for value in values),), first.context, first.dtype)
        start = 0
        for value in values:
            vector[start : start + value.size] = value.reshape((-1,))
            start += value.size
        weights[self._vector] = vector
        return weights
