"""Recurrent layers: one operator, `RNN`, over all steps, layers and directions, with each layer's weights apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lowering.messages.counts import check_count, checks_flags
from lowering.mx import ndarray, symbol
from lowering.mx.accepted_types import DType, InitializerLike
from lowering.mx.gluon.hybrid import HybridBlock
from lowering.mx.gluon.rnn.rnn_cell import (
    BidirectionalCell,
    DropoutCell,
    GRUCell,
    HybridSequentialRNNCell,
    LSTMCell,
    RNNCell,
    check_states,
)
from lowering.mx.gluon.rnn.sequences import TENSORS, joined
from lowering.mx.gluon.structure import converted
from lowering.mx.gluon.tensor import Tensor
from lowering.mx.ndarray.array import NDArray, current_dialect
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import ParamError, SymbolValueError

__all__ = ["GRU", "LSTM", "RNN"]

_MODES: dict[str, tuple[int, Any, dict[str, Any]]] = {
    "rnn_relu": (1, RNNCell, {"activation": "relu"}),
    "rnn_tanh": (1, RNNCell, {"activation": "tanh"}),
    "lstm": (4, LSTMCell, {}),
    "gru": (3, GRUCell, {}),
}
"""Mode of the operator → (gates, the cell that does the same, its parameters)."""

_PARAMETER = re.compile(r"([lr])(\d+)_(i2h|h2h|h2r)_(weight|bias)\Z")


class _RNNLayer(HybridBlock):
    """Holds num_layers layers, one on top of the other: what RNN, LSTM and GRU share.

    Input (t, n, c) for layout "TNC", (n, t, c) for "NTC"; states (layers · directions, n, hidden). Called with the
    input alone it gives the output, with states (output, new states). dropout: between layers. use_sequence_length: the
    third argument has the lengths (n,) of the sequences. dtype: the dtype of the parameters.
    """

    _children: Any
    _reg_params: Any
    l0_i2h_weight: Any

    @checks_flags
    def __init__(
        self,
        mode: str,
        hidden_size: int,
        num_layers: int,
        layout: str,
        dropout: float,
        bidirectional: bool,
        input_size: int,
        initializers: dict[str, Any],
        dtype: DType,
        projection_size: int | None = None,
        clip: tuple[Any, Any, bool] = (None, None, False),
        use_sequence_length: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_count(hidden_size, "hidden_size")
        check_count(num_layers, "num_layers")
        assert layout in ("TNC", "NTC"), f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']"
        self._mode, self._gates = mode, _MODES[mode][0]
        self._hidden_size, self._num_layers, self._layout, self._dropout = hidden_size, num_layers, layout, dropout
        self._projection_size = projection_size or None
        self._dir = 2 if bidirectional else 1
        self._input_size, self._dtype = input_size, dtype
        self._initializers, self._clip = initializers, clip
        self._use_sequence_length = use_sequence_length
        self.skip_states: bool | None = None
        width, size = self._gates * hidden_size, self._projection_size or hidden_size
        for layer in range(num_layers):
            in_size = input_size if layer == 0 else size * self._dir
            shapes = {
                "i2h_weight": (width, in_size), "h2h_weight": (width, size), "i2h_bias": (width,), "h2h_bias": (width,)
            }  # fmt: skip
            shapes |= {"h2r_weight": (size, hidden_size)} if self._projection_size else {}
            for direction in "lr"[: self._dir]:
                for part, shape in shapes.items():
                    name, init = f"{direction}{layer}_{part}", initializers[part]
                    parameter = self.params.get(name, shape=shape, init=init, allow_deferred_init=True, dtype=dtype)
                    setattr(self, name, parameter)

    def __repr__(self) -> str:
        rows, columns = self.l0_i2h_weight.shape
        text = f"{type(self).__name__}({columns if columns else None} -> {rows // self._gates}, {self._layout}"
        text += f", num_layers={self._num_layers}" if self._num_layers != 1 else ""
        text += f", dropout={self._dropout}" if self._dropout else ""
        return text + (", bidirectional)" if self._dir == 2 else ")")

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Any]:
        """Return the parameters under the names of the cells that do the same, as MXNet's files have them."""
        prefix += "." if prefix else ""
        parameters = {}
        for name, parameter in self._reg_params.items():
            match = _PARAMETER.match(name)
            assert match is not None, name
            direction, layer, group, kind = match.groups()
            cell = f"{direction}_cell." if self._dir == 2 else ""
            parameters[f"{prefix}_unfused.{layer}.{cell}{group}_{kind}"] = parameter
        for name, child in self._children.items():
            parameters.update(child._collect_params_with_prefix(prefix + name))
        return parameters

    def state_info(self, batch_size: int = 0) -> list[Any]:
        """Return the output, and of an LSTM the cell, of each layer and direction."""
        sizes = [self._projection_size or self._hidden_size, self._hidden_size][: 1 + (self._mode == "lstm")]
        layers = self._num_layers * self._dir
        return [{"shape": (layers, batch_size, size), "__layout__": "LNC", "dtype": self._dtype} for size in sizes]

    def begin_state(self, batch_size: int = 0, func: Any = ndarray.zeros, **kwargs: Any) -> list[Any]:
        """Return the states to begin with. func: makes each of its description, with kwargs."""
        infos = enumerate(self.state_info(batch_size))
        states = [func(name=f"{self.prefix}h0_{i}", **{**info, **kwargs}) for i, info in infos]
        return converted(states, current_dialect())

    def cast(self, dtype: DType) -> None:
        """Cast parameters and states to another dtype."""
        super().cast(dtype)
        self._dtype = dtype

    def _unfuse(self) -> HybridSequentialRNNCell:
        """Return cells that do the same, with these parameters."""
        assert not self._projection_size, "_unfuse does not support projection layer yet!"
        assert not any(self._clip[:2]), "_unfuse does not support state clipping yet!"
        _, kind, options = _MODES[self._mode]
        options |= {f"{part}_initializer": init for part, init in self._initializers.items() if part != "h2r_weight"}
        stack = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        with stack.name_scope():
            for layer in range(self._num_layers):
                options["input_size"] = self._hidden_size * self._dir if layer else self._input_size
                cells = [kind(self._hidden_size, prefix=f"{side}{layer}_", **options) for side in "lr"[: self._dir]]
                stack.add(BidirectionalCell(*cells) if self._dir == 2 else cells[0])
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(DropoutCell(self._dropout))
        return stack

    def __call__(self, inputs: Any, states: Any = None, sequence_length: Any = None, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.skip_states = states is None
        if isinstance(inputs, NDArray):
            batch_size = inputs.shape[self._layout.find("N")]
            if states is None:
                states = self.begin_state(batch_size, ctx=inputs.context, dtype=inputs.dtype)
        elif states is None:
            states = self.begin_state(0, func=symbol.zeros)
        states = [states] if isinstance(states, TENSORS) else states
        check_states(self, states)
        lengths = [sequence_length] if self._use_sequence_length else []
        return super().__call__(inputs, states, *lengths, **kwargs)

    def hybrid_forward(
        self, F: Any, inputs: Tensor, states: Any, sequence_length: Tensor | None = None, **kwargs: Any
    ) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the output, or (output, states)."""
        if isinstance(inputs, NDArray):
            for state, info in zip(states, self.state_info(inputs.shape[self._layout.find("N")]), strict=False):
                if state.shape != info["shape"]:
                    problem = f"Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}."
                    raise SymbolValueError(problem)
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        vector = joined(F, [kwargs[name].reshape(-1) for name in self._packed()])
        state_inputs = [*states, sequence_length] if self._use_sequence_length else states
        low, high, nan = self._clip
        outputs, *states = F.RNN(
            inputs,
            vector,
            *state_inputs,
            use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size,
            projection_size=self._projection_size,
            num_layers=self._num_layers,
            bidirectional=self._dir == 2,
            p=self._dropout,
            state_outputs=True,
            mode=self._mode,
            lstm_state_clip_min=low,
            lstm_state_clip_max=high,
            lstm_state_clip_nan=nan,
        )
        if self._layout == "NTC":
            outputs = F.swapaxes(outputs, 0, 1)
        return outputs if self.skip_states else (outputs, states)

    def _packed(self) -> Iterator[str]:
        """Yield the parameters' names in the order of the operator's vector."""
        for kind in ("weight", "bias"):
            groups = ("i2h", "h2h", "h2r") if self._projection_size and kind == "weight" else ("i2h", "h2h")
            for layer in range(self._num_layers):
                for direction in "lr"[: self._dir]:
                    yield from (f"{direction}{layer}_{group}_{kind}" for group in groups)


def _initializers(*initializers: Any) -> dict[str, Any]:
    names = "i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias", "h2r_weight"
    return dict(zip(names, initializers, strict=False))


@explained_by(RNNCell)
class RNN(_RNNLayer):
    """Layers of plain recurrent units: h' = activation(W x + b + U h + c).

    The input is (t, n, c) for layout "TNC" and (n, t, c) for "NTC", a state (layers · directions, n, hidden). Called
    with the input alone, the layer returns the output; called with states, the output and the new states.

    Args:
        num_layers: the number of layers.
        activation: "relu" or "tanh".
        layout: "TNC" or "NTC".
        dropout: the probability of dropping an element between two layers.
        bidirectional: run the layers in both directions.
        dtype: the dtype of the parameters.
        kwargs: `prefix` and `params` of the block; `use_sequence_length` for a third input with the lengths (n,) of
            sequences.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: InitializerLike = None,
        h2h_weight_initializer: InitializerLike = None,
        i2h_bias_initializer: InitializerLike = "zeros",
        h2h_bias_initializer: InitializerLike = "zeros",
        input_size: int = 0,
        dtype: DType = "float32",
        **kwargs: Any,
    ):
        first = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        if activation not in ("relu", "tanh"):
            raise ParamError("Wrong activation of RNN", expected="'relu' or 'tanh'", got=f"{activation!r:.80}")
        shape = hidden_size, num_layers, layout, dropout, bidirectional, input_size
        super().__init__(f"rnn_{activation}", *shape, first, dtype, **kwargs)


@explained_by(RNN)
class LSTM(_RNNLayer):
    """Layers of long short-term memory, with states (output, cell); inputs and outputs are those of `RNN`.

    Args:
        projection_size: the size of an output that is multiplied with h2r_weight (projection, hidden); None for no
            product.
        h2r_weight_initializer: the initialiser of h2r_weight.
        state_clip_min: the lower bound of the cell.
        state_clip_max: the upper bound of the cell.
        state_clip_nan: apply the bounds to NaN as well.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: InitializerLike = None,
        h2h_weight_initializer: InitializerLike = None,
        i2h_bias_initializer: InitializerLike = "zeros",
        h2h_bias_initializer: InitializerLike = "zeros",
        projection_size: int | None = None,
        h2r_weight_initializer: InitializerLike = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: DType = "float32",
        **kwargs: Any,
    ):
        first = _initializers(
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            h2r_weight_initializer,
        )
        shape = hidden_size, num_layers, layout, dropout, bidirectional, input_size
        clip = state_clip_min, state_clip_max, state_clip_nan
        super().__init__("lstm", *shape, first, dtype, projection_size, clip, **kwargs)


@explained_by(RNN)
class GRU(_RNNLayer):
    """Layers of gated recurrent units; inputs and outputs are those of `RNN`."""

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: InitializerLike = None,
        h2h_weight_initializer: InitializerLike = None,
        i2h_bias_initializer: InitializerLike = "zeros",
        h2h_bias_initializer: InitializerLike = "zeros",
        dtype: DType = "float32",
        **kwargs: Any,
    ):
        first = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        shape = hidden_size, num_layers, layout, dropout, bidirectional, input_size
        super().__init__("gru", *shape, first, dtype, **kwargs)
