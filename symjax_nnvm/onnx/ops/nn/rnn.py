"""The ONNX form of RNN: LSTM, GRU or RNN for each layer, with MXNet's flat vector of parameters laid out anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.nn import rnn as ops

_CELLS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "rnn_relu": ("RNN", (0,), {"activations": ["Relu"]}),
    "rnn_tanh": ("RNN", (0,), {}),
    "lstm": ("LSTM", (0, 3, 1, 2), {}),
    "gru": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
}
"""Mode → (ONNX' operator, the order of its gates: LSTM's i, o, f, g, GRU's z, r, n; attributes)."""


@onnx_form("RNN")
def _rnn(g: Builder, p: ops.RNNParams, data: Tensor, parameters: Tensor, *others: Tensor) -> list[Tensor]:
    if p.projection_size is not None or p.lstm_state_clip_min is not None:
        g.refuse(
            "ONNX' LSTM neither projects its output nor clips its cell state",
            "Unroll the recurrence in the graph, cell by cell.",
        )
    states = others[: len(ops.smooth(p)) - 2]
    lengths = g.cast(others[-1], "int32") if p.use_sequence_length else None
    pieces = _pieces(g, p, data, parameters)
    k = p.num_directions
    x, last = data, []
    for layer in range(p.num_layers):
        rows = [p.cells.index((layer, d)) for d in range(k)]
        first = [g.slice(state, 0, rows[0], rows[0] + k) for state in states]
        x, *ends = _layer(g, p, x, [pieces[row] for row in rows], lengths, first)
        last.append(ends)
    if not p.state_outputs:
        return [x]
    return [x, *(g.concat(list(layers), 0) for layers in zip(*last, strict=True))]


def _pieces(g: Builder, p: ops.RNNParams, data: Tensor, parameters: Tensor) -> list[list[Tensor]]:
    """Return [i2h, h2h, i2h bias, h2h bias] of each set of cells, gates in ONNX' order."""
    input_size = g.static(data, [2])[2]
    pieces, at = [], 0
    for shape in ops.parameter_shapes(p, input_size):
        size = math.prod(shape)
        piece = g.reshape(g.slice(parameters, 0, at, at + size), *shape)
        pieces.append(_regated(g, p, piece))
        at += size
    matrices, biases = pieces[: 2 * len(p.cells)], pieces[2 * len(p.cells) :]
    return [[*matrices[2 * i : 2 * i + 2], *biases[2 * i : 2 * i + 2]] for i in range(len(p.cells))]


def _regated(g: Builder, p: ops.RNNParams, piece: Tensor) -> Tensor:
    _, order, _ = _CELLS[p.mode]
    s = p.state_size
    return piece if len(order) == 1 else g.concat([g.slice(piece, 0, i * s, (i + 1) * s) for i in order], 0)


def _layer(
    g: Builder,
    p: ops.RNNParams,
    x: Tensor,
    pieces: Sequence[list[Tensor]],
    lengths: Tensor | None,
    first: Sequence[Tensor],
) -> list[Tensor]:
    """Return one layer in both directions: its output (t, n, k·s), and the states after the last step (k, n, s)."""
    kind, _, attrs = _CELLS[p.mode]
    k = p.num_directions
    if k == 2:
        attrs = {**attrs, "direction": "bidirectional"}
        attrs |= {"activations": attrs["activations"] * 2} if "activations" in attrs else {}
    w, r = (g.concat([g.unsqueeze(piece[i], 0) for piece in pieces], 0) for i in (0, 1))
    b = g.concat([g.unsqueeze(g.concat(piece[2:], 0), 0) for piece in pieces], 0)
    dtypes = [None] * (1 + len(first))
    out, *ends = g.ops(kind, x, w, r, b, lengths, *first, dtypes=dtypes, hidden_size=p.state_size, **attrs)
    joined = g.op("Reshape", g.transpose(out, (0, 2, 1, 3)), [0, 0, -1]) if k == 2 else g.op("Squeeze", out, [1])
    return [joined, *ends]
