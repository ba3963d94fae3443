"""ONNX' LSTM, GRU and RNN: one layer of MXNet's RNN, with the weights laid out as its flat vector."""

from __future__ import annotations

import math

import numpy as np

from symjax_nnvm.onnx.imports.composer import Composer
from symjax_nnvm.onnx.imports.file_values import Value
from symjax_nnvm.onnx.imports.import_registry import ImportForm, onnx_import
from symjax_nnvm.onnx.imports.ops.casts_and_shapes import cast, cut, filled, reshape, transpose

_CELLS: dict[str, tuple[str, tuple[int, ...], tuple[str, ...]]] = {
    "RNN": ("rnn_tanh", (0,), ("Tanh",)),
    "LSTM": ("lstm", (0, 2, 3, 1), ("Sigmoid", "Tanh", "Tanh")),
    "GRU": ("gru", (1, 0, 2), ("Sigmoid", "Tanh")),
}
"""ONNX' operator → (mode, MXNet's gates in ONNX' numbers: LSTM's i, f, g, o, GRU's r, z, n; functions of its cell)."""


def _recurrence(g: Composer, x: Value, w: Value, r: Value, *others: Value | None) -> list[Value]:
    """Map x (t, n, i), w (k, g·s, i), r (k, g·s, s), bias (k, 2·g·s), lengths (n), states (k, n, s) → (t, k, n, s) …"""
    bias, lengths, *states = [*others, None, None, None, None, None][:5]
    directions = {"forward": 1, "reverse": 1, "bidirectional": 2}[g.attr("direction", "forward")]
    size = g.attr("hidden_size") or g.static(r)[2]
    mode = _mode(g, directions)
    _check(g, states[2])
    if g.attr("layout", 0):
        x = transpose(g, x, (1, 0, 2))
        states = [None if state is None else transpose(g, state, (1, 0, 2)) for state in states[:2]]
    x = _turned(g, x, lengths)
    count = 2 if mode == "lstm" else 1
    zeros = [(directions, shape[1], size) for shape in x.shapes]
    first = [filled(g, zeros, 0.0, x.held) if state is None else state for state in states[:count]]
    vector = _packed(g, w, r, bias)
    more = [] if lengths is None else [cast(g, lengths, "int32")]
    out, *last = g.ops(
        "RNN",
        *(x, vector, *first, *more),
        mode=mode,
        state_size=size,
        num_layers=1,
        bidirectional=directions == 2,
        state_outputs=any(g.used(i) for i in (1, 2)),
        use_sequence_length=lengths is not None,
    )
    out = _turned(g, out, lengths)
    four = reshape(g, out, [(t, n, directions, size) for t, n, _ in out.shapes])
    y = transpose(g, four, (0, 2, 1, 3))
    if g.attr("layout", 0):
        y = transpose(g, four, (1, 0, 2, 3))
        last = [transpose(g, state, (1, 0, 2)) for state in last]
    return [y, *last]


def _mode(g: Composer, directions: int) -> str:
    """Return the cell. Raises OnnxError for functions that MXNet's lacks."""
    mode, _, usual = _CELLS[g.node.kind]
    activations = tuple(g.attr("activations") or usual * directions)
    if g.node.kind == "RNN" and set(activations) == {"Relu"}:
        return "rnn_relu"
    if activations != usual * directions:
        g.refuse(f"its cell has the functions {activations}, but MXNet's cell {usual}")
    if mode == "gru" and not g.attr("linear_before_reset", 0):
        g.refuse(
            "its reset gate comes before the product (linear_before_reset=0), and MXNet's after it",
            "Train it with reset_after=True (Keras); PyTorch's GRU always has it so.",
        )
    return mode


def _check(g: Composer, peepholes: Value | None) -> None:
    if g.attr("clip") is not None or g.attr("input_forget", 0):
        g.refuse("its cell clips what goes in, or couples its gates")
    if peepholes is not None and (peepholes.array is None or np.any(peepholes.array)):
        g.refuse("its gates look at the cell (peepholes), and MXNet's do not")


def _turned(g: Composer, x: Value, lengths: Value | None) -> Value:
    """Return the sequences backwards, where the cells read them so."""
    if g.attr("direction", "forward") != "reverse":
        return x
    if lengths is None:
        return g.op("reverse", x, axis=0)
    return g.op("SequenceReverse", x, cast(g, lengths, "int32"), use_sequence_length=True)


def _packed(g: Composer, w: Value, r: Value, bias: Value | None) -> Value:
    """Return MXNet's vector: the matrices of each direction, then the biases."""
    _, order, _ = _CELLS[g.node.kind]
    k, rows, _ = g.static(w)
    halves = g.constant(g.full((k, 2 * rows), 0, w.dtype), name="zeros") if bias is None else bias
    if w.array is None or r.array is None or halves.array is None:
        return _packed_at_run_time(g, w, r, halves)

    def gates(array: np.ndarray) -> np.ndarray:
        parts = np.split(array, len(order))
        return np.concatenate([parts[i] for i in order]).reshape(-1)

    g.reserve(2, w.array.size + r.array.size + halves.array.size, dtype=w.dtype)  # the pieces, and all together
    biases = [halves.array[:, :rows], halves.array[:, rows:]]
    pieces = [gates(weights[d]) for group in ((w.array, r.array), biases) for d in range(k) for weights in group]
    vector = g.constant(np.concatenate(pieces), name="parameters")
    vector.in_graph = False
    return vector


def _packed_at_run_time(g: Composer, w: Value, r: Value, bias: Value) -> Value:
    """Return the same of weights that are computed."""
    _, order, _ = _CELLS[g.node.kind]
    k, rows, _ = g.static(w)
    part = rows // len(order)
    pieces: list[Value] = []

    def take(matrix: Value, direction: int, begin: int) -> None:
        row = cut(g, matrix, 0, direction, direction + 1)
        for gate in order:
            piece = cut(g, row, 1, begin + gate * part, begin + (gate + 1) * part)
            pieces.append(reshape(g, piece, [(math.prod(shape),) for shape in piece.shapes]))

    for d in range(k):
        take(w, d, 0)
        take(r, d, 0)
    for d in range(k):
        take(bias, d, 0)
        take(bias, d, rows)
    return g.op("Concat", *pieces, dim=0)


_FORM: ImportForm = _recurrence
onnx_import(*_CELLS, ignores=("activation_alpha", "activation_beta"))(_FORM)
