"""The networks of `zoo.py`: which there are, how the symbolic ones are written, and what data they get.

Every contender's interpreter imports this file, so it needs NumPy alone; `sym` is MXNet's symbol module or ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["MOMENTUM", "NETWORKS", "RATE", "ROWS", "Network", "Row", "asked", "chosen", "initial_values", "inputs"]
__all__ += ["row_of", "with_head"]

RATE, MOMENTUM = 1e-3, 0.9
Shape = tuple[int, ...]


def blocks(sym: Any, layers: int, width: int, heads: int, *, pre_norm: bool) -> Any:
    """A stack of transformer blocks, data (n, t, width), as GluonNLP writes them; pre_norm: LayerNorm on the branches.

    Otherwise after each sum, as in BERT (Devlin et al. 2018). Four times as wide inside; no dropout.
    """

    def dense(h: Any, size: int, name: str) -> Any:
        return sym.FullyConnected(h, num_hidden=size, flatten=False, name=name)

    def split_heads(h: Any) -> Any:
        """(n, t, width) → (n · heads, t, width / heads)."""
        parts = sym.transpose(sym.reshape(h, shape=(0, 0, heads, -1)), axes=(0, 2, 1, 3))
        return sym.reshape(parts, shape=(-3, 0, 0))

    def attention(h: Any, name: str) -> Any:
        query, key, value = (split_heads(dense(h, width, f"{name}_{part}")) for part in ("query", "key", "value"))
        weights = sym.softmax(sym.batch_dot(query, key, transpose_b=True) * (width / heads) ** -0.5)
        mixed = sym.reshape(sym.batch_dot(weights, value), shape=(-4, -1, heads, 0, 0))
        return dense(sym.reshape(sym.transpose(mixed, axes=(0, 2, 1, 3)), shape=(0, 0, -3)), width, f"{name}_out")

    def feed_forward(h: Any, name: str) -> Any:
        return dense(sym.LeakyReLU(dense(h, 4 * width, f"{name}_in"), act_type="gelu"), width, f"{name}_back")

    def normal(h: Any, name: str) -> Any:
        return sym.LayerNorm(h, name=name)

    h = sym.Variable("data")
    for i in range(layers):
        for part, name in ((attention, f"block{i}_attention"), (feed_forward, f"block{i}_ffn")):
            if pre_norm:
                h = h + part(normal(h, f"{name}_norm"), name)
            else:
                h = normal(h + part(h, name), f"{name}_norm")
    return h


def lstm(sym: Any) -> Any:
    """Two LSTM layers of 512, data (64, 32, 512): time, batch, features."""
    weight = sym.Variable("rnn_parameters", shape=(2 * 4 * 512 * (2 * 512 + 2),))
    states = [sym.zeros(shape=(2, 32, 512)) for _ in range(2)]
    return sym.RNN(sym.Variable("data"), weight, *states, state_size=512, num_layers=2, mode="lstm", name="rnn")


@dataclass(frozen=True)
class Network:
    """One network. shape: of its data at batch 1, axis `batch_axis` is the batch.

    source: the name of a model in MXNet's gluon.model_zoo.vision, or a function of a symbol module.
    head: the loss it is trained with. onnx: whether MXNet's exporter and onnxruntime take part; by_hand: whether
    `zoo_jax.py` has it.
    """

    source: str | Callable[[Any], Any]
    shape: Shape
    head: str = "SoftmaxOutput"
    batch_axis: int = 0
    onnx: bool = True
    by_hand: bool = False


def _encoder(layers: int) -> Network:
    def build(sym: Any) -> Any:
        return blocks(sym, layers, 768, 12, pre_norm=False)

    return Network(build, (1, 128, 768), head="LinearRegressionOutput", onnx=False, by_hand=True)


IMAGE = (1, 3, 224, 224)
NETWORKS = {
    "resnet50": Network("resnet50_v1", IMAGE),
    "mobilenet": Network("mobilenet1.0", IMAGE),
    "mobilenet_v2": Network("mobilenetv2_1.0", IMAGE),
    "densenet121": Network("densenet121", IMAGE),
    "inception_v3": Network("inceptionv3", (1, 3, 299, 299)),
    "squeezenet": Network("squeezenet1.1", IMAGE),
    "vgg16": Network("vgg16", IMAGE),
    "resnet18": Network("resnet18_v1", IMAGE, by_hand=True),
    "bert": _encoder(12),
    "lstm": Network(lstm, (64, 1, 512), head="LinearRegressionOutput", batch_axis=1, onnx=False, by_hand=True),
    "transformer4": _encoder(4),
}


@dataclass(frozen=True)
class Row:
    """A line of the table: inference or one training step (forward, backward, update) of a network at a batch size."""

    name: str
    batch: int
    training: bool = False

    @property
    def network(self) -> Network:
        """What is run."""
        return NETWORKS[self.name]

    @property
    def label(self) -> str:
        """`resnet50-b16`, `lstm-b32-train`."""
        return f"{self.name}-b{self.batch}{'-train' if self.training else ''}"

    @property
    def shape(self) -> Shape:
        """Of the data."""
        axis = self.network.batch_axis
        return (*self.network.shape[:axis], self.batch, *self.network.shape[axis + 1 :])


ROWS = [
    *(Row(name, batch) for name in ("resnet50", "mobilenet") for batch in (1, 16)),
    *(Row(name, 1) for name in ("mobilenet_v2", "densenet121", "inception_v3", "squeezenet", "vgg16", "resnet18")),
    *(Row("bert", batch) for batch in (1, 8)),
    Row("lstm", 32),
    *(Row(name, 16, training=True) for name in ("resnet18", "mobilenet")),
    Row("lstm", 32, training=True),
    Row("transformer4", 8, training=True),
]


def row_of(load: Callable[[Row, str], Any]) -> Callable[..., Any]:
    """A contender's function of a row and a folder, as one of what `asked` sends."""
    return lambda row, batch, training, folder: load(Row(row, batch, training), folder)


def asked(row: Row, folder: str) -> dict[str, Any]:
    """What a contender is asked to load."""
    return {"row": row.name, "batch": row.batch, "training": row.training, "folder": folder}


def chosen(only: str | None, training: bool | None) -> list[Row]:
    """The rows of these networks or labels, with commas between; training: None for both kinds. Raises ValueError."""
    names = set(only.split(",")) if only else set(NETWORKS)
    unknown = names - {word for row in ROWS for word in (row.name, row.label)}
    if unknown:
        raise ValueError(f"no network {sorted(unknown)}; there are {list(NETWORKS)}, or rows such as resnet50-b16")
    return [row for row in ROWS if names & {row.name, row.label} and training in (None, row.training)]


def with_head(sym: Any, net: Any, row: Row) -> Any:
    """What is trained: the network under its loss, label `head_label`."""
    return getattr(sym, row.network.head)(net, name="head")


def inputs(row: Row, out_shape: Shape) -> dict[str, np.ndarray]:
    """Data of a fixed seed; in training with a label for outputs of that shape."""
    rng = np.random.RandomState(1)
    arrays = {"data": rng.standard_normal(row.shape).astype(np.float32)}
    if row.training and row.network.head == "SoftmaxOutput":
        arrays["head_label"] = rng.randint(0, out_shape[1], out_shape[:1]).astype(np.float32)
    elif row.training:
        arrays["head_label"] = rng.standard_normal(out_shape).astype(np.float32)
    return arrays


def initial_values(shapes: dict[str, Shape]) -> dict[str, np.ndarray]:
    """Parameters and states of a fixed seed that keep activations near 1 and leave no normalisation the identity."""
    rng = np.random.RandomState(0)
    values = {}
    for name, shape in shapes.items():
        noise = rng.standard_normal(shape)
        if name.endswith(("gamma", "running_var")):
            values[name] = 1 + 0.1 * np.tanh(noise)
        elif name.endswith("weight"):
            values[name] = noise * np.sqrt(2 / np.prod(shape[1:]))
        elif name == "rnn_parameters":
            values[name] = noise * 512**-0.5
        else:
            values[name] = 0.1 * noise
    return {name: value.astype(np.float32) for name, value in values.items()}


def files(folder: str | Path, row: Row) -> str:
    """The prefix of the network's `-symbol.json`, `-0000.params`; the exported models are beside them."""
    return str(Path(folder) / row.name)
