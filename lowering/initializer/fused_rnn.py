"""FusedRNN: the flat parameter vector of an RNN operator, gate by gate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from lowering.initializer.initializer_base import InitDesc, Initializer, Shape, create, register
from symjax_nnvm.errors import InitializerError

_GATES = {"rnn_relu": ("",), "rnn_tanh": ("",), "lstm": ("_i", "_f", "_c", "_o"), "gru": ("_r", "_z", "_o")}


@register
class FusedRNN(Initializer):
    """Initialises the flat vector of an RNN operator as another initialiser would the weights and biases of its gates.

    The gates have the names of MXNet's FusedRNNCell (`l0_i2h_f_weight` (h, input), …).

    Args:
        init: the initialiser of the gates; None for the whole model's.
        num_hidden: the size of the hidden state.
        num_layers: the number of layers.
        mode: "rnn_relu", "rnn_tanh", "gru" or "lstm".
        bidirectional: whether the layers run in both directions.
        forget_bias: in an LSTM, the value of each of the forget gate's two biases.
    """

    def __init__(
        self,
        init: Any,
        num_hidden: int,
        num_layers: int,
        mode: str,
        bidirectional: bool = False,
        forget_bias: float = 1.0,
    ):
        if mode not in _GATES:
            raise InitializerError("There is no such cell", param="mode", expected=list(_GATES), got=repr(mode))
        self._init = None if init is None else create(init)
        super().__init__(
            init=None if self._init is None else self._init.dumps(),
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )
        self._hidden, self._layers, self._mode, self._forget_bias = num_hidden, num_layers, mode, forget_bias
        self._directions = "lr" if bidirectional else "l"

    def _init_weight(self, desc: str, shape: Shape, key: jax.Array | None) -> Any:
        global_init = desc.global_init if isinstance(desc, InitDesc) else None
        initializer = self._init or global_init
        if initializer is None:
            raise InitializerError("FusedRNN needs an initialiser for the gates", node=desc, param="init")
        pieces = []
        for name, piece in self._pieces(self._input_size(desc, shape)):
            if self._mode == "lstm" and name.endswith("_f_bias"):
                pieces.append(jnp.full(piece, self._forget_bias, jnp.float32))
            else:
                pieces.append(initializer(InitDesc(name, global_init=global_init), piece, jnp.float32, key).reshape(-1))
        return jnp.concatenate(pieces)

    def _input_size(self, desc: str, shape: Shape) -> int:
        """Return the input's size, from the vector's length. Raises InitializerError when none fits."""
        hidden, b, gates = self._hidden, len(self._directions), len(_GATES[self._mode])
        size = math.prod(shape)
        inputs = size // b // hidden // gates - (self._layers - 1) * (hidden + b * hidden + 2) - hidden - 2
        if inputs < 1 or len(shape) != 1 or sum(math.prod(piece) for _, piece in self._pieces(inputs)) != size:
            raise InitializerError(
                f"A parameter of shape {shape} is not the vector of weights of {self!r}",
                node=desc,
                fix="num_hidden, num_layers, mode and bidirectional must be those of the RNN operator.",
            )
        return inputs

    def _pieces(self, inputs: int) -> Iterator[tuple[str, Shape]]:
        """Yield (name, shape) of every gate's weights, then of every gate's biases, in the order of the vector."""
        hidden, gates = self._hidden, _GATES[self._mode]
        cells = [(f"{d}{layer}", layer) for layer in range(self._layers) for d in self._directions]
        for cell, layer in cells:
            below = len(self._directions) * hidden if layer else inputs
            for kind, columns in (("i2h", below), ("h2h", hidden)):
                yield from ((f"{cell}_{kind}{gate}_weight", (hidden, columns)) for gate in gates)
        for cell, _ in cells:
            yield from ((f"{cell}_{kind}{gate}_bias", (hidden,)) for kind in ("i2h", "h2h") for gate in gates)
