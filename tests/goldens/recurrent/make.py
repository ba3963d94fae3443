"""Make the goldens of Gluon's recurrent layers with open input size: symbol files, and what MXNet 1.9.1 computes.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.recurrent.make

For each layer: its symbol file, and arrays `{layer}|shape|{argument}`, `{layer}|arg|{argument}` and `{layer}|out{i}` in
`values.npz`. The layer with a projection, which MXNet runs on GPUs only, has shapes alone.
"""

from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np
from mxnet.gluon import rnn  # type: ignore[import-not-found]

from tests.goldens.make import save

HERE = Path(__file__).parent
DATA = (3, 2, 5)  # (sequence length, batch size, input size); (batch size, sequence length, …) of layers with "NTC"

LAYERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (rnn.LSTM, {}),
    "lstm_two_layers": (rnn.LSTM, {"num_layers": 2, "layout": "NTC"}),
    "lstm_projected": (rnn.LSTM, {"projection_size": 3}),
    "gru": (rnn.GRU, {}),
    "rnn": (rnn.RNN, {"activation": "tanh"}),
}
"""Name → (class of the bidirectional layer, options)."""


def main() -> None:
    """Write all layers' symbols and values."""
    stored: dict[str, np.ndarray] = {}
    for name, (layer, options) in LAYERS.items():
        symbol = layer(4, bidirectional=True, input_size=0, prefix="net_", **options)(mx.sym.Variable("data"))
        (HERE / f"{name}-symbol.json").write_text(symbol.tojson())
        shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape(data=DATA)[0], strict=True))
        stored |= {f"{name}|shape|{key}": np.array(shape) for key, shape in shapes.items()}
        if "projection_size" in options:
            continue
        rng = np.random.RandomState(len(stored))
        values = {key: rng.uniform(-1, 1, shape).astype(np.float32) for key, shape in shapes.items()}
        executor = symbol.simple_bind(mx.cpu(), data=DATA, grad_req="null")
        outputs = executor.forward(**{key: mx.nd.array(value) for key, value in values.items()})
        stored |= {f"{name}|arg|{key}": value for key, value in values.items()}
        stored |= {f"{name}|out{i}": output.asnumpy() for i, output in enumerate(outputs)}
    save(HERE / "values.npz", stored)


if __name__ == "__main__":
    main()
