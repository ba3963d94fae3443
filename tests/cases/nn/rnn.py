"""Cases of RNN: cells, layers, directions, projections, lengths, clipping, dropout."""

from typing import Any

from tests.cases import Case, T

_RANDOM = "the two libraries draw different numbers"
_LENGTHS = "MXNet ignores sequence lengths on the CPU, or refuses them"
_CLIPPING = "MXNet ignores state clipping on the CPU, or refuses it"
_PROJECTION = "MXNet does not train projections on the CPU"
_HALF = "MXNet has no float16 kernel for it on the CPU"
_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "gru": 3, "lstm": 4}


def _rnn(mode: str, *, t: int = 3, n: int = 2, d: int = 3, dtype: str = "float32", **given: Any) -> Case:
    """A case with states of size 2 and parameters in [-1, 1)."""
    fields = {name: given.pop(name) for name in ("is_train", "no_mxnet", "wrt") if name in given}
    params = {"mode": mode, "state_size": 2, "num_layers": 1} | given
    h, layers, k = params["state_size"], params["num_layers"], 2 if params.get("bidirectional") else 1
    s = params.get("projection_size", h)
    rows = _GATES[mode] * h
    size = k * rows * (d + s + 2) + (layers - 1) * k * rows * (k * s + s + 2)
    size += layers * k * s * h if "projection_size" in params else 0
    inputs = [T(t, n, d, dtype=dtype), T(size, dtype=dtype), T(layers * k, n, s, dtype=dtype)]
    if mode == "lstm":
        inputs.append(T(layers * k, n, h, dtype=dtype))
    if params.get("use_sequence_length"):
        fields.setdefault("no_mxnet", _LENGTHS)
        inputs.append(T(n, low=1, high=t + 1, kind="integers", dtype="int32"))
    return Case("RNN", tuple(inputs), params, **fields)


_STACKED = {"num_layers": 2, "bidirectional": True, "state_outputs": True}

CASES = [
    *[_rnn(mode) for mode in _GATES],
    _rnn("lstm", **_STACKED),
    _rnn("gru", **_STACKED),
    _rnn("rnn_tanh", bidirectional=True, state_outputs=True),
    _rnn("rnn_relu", num_layers=2, p=0.4, is_train=False, wrt=()),
    _rnn("lstm", projection_size=1, state_size=3, **_STACKED, is_train=False, wrt=()),
    _rnn("lstm", projection_size=1, bidirectional=True, state_outputs=True, no_mxnet=_PROJECTION),
    _rnn("lstm", n=3, bidirectional=True, state_outputs=True, use_sequence_length=True),
    _rnn("gru", n=3, num_layers=2, use_sequence_length=True),
    _rnn("rnn_tanh", n=3, bidirectional=True, use_sequence_length=True),
    _rnn("lstm", state_outputs=True, lstm_state_clip_min=-0.2, lstm_state_clip_max=0.3, no_mxnet=_CLIPPING),
    _rnn("lstm", num_layers=2, p=0.4, no_mxnet=_RANDOM),
    _rnn("rnn_tanh", num_layers=2, bidirectional=True, p=0.4, no_mxnet=_RANDOM),
    # From a batch of 16 on each step multiplies its own inputs.
    _rnn("lstm", t=2, n=16, num_layers=2),
    _rnn("gru", t=2, n=16, bidirectional=True),
    _rnn("lstm", t=2, n=16, d=1, projection_size=1, use_sequence_length=True),
    _rnn("gru", dtype="float64", state_outputs=True),
    _rnn("lstm", dtype="float16", no_mxnet=_HALF),
]
