"""The networks of these scripts: the rows of `zoo.py`, the cases of `by_hand.py`, and how both are written and filled.

Every contender's interpreter imports this file, so it needs NumPy alone; `sym` is MXNet's symbol module or ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

RATE, MOMENTUM = 1e-3, 0.9
Shape = tuple[int, ...]


# -- symbols -----------------------------------------------------------------------------------------------------------


def perceptron(sym: Any, widths: Sequence[int], **head: Any) -> Any:
    """Dense layers of these widths with ReLU between, under a softmax. head: parameters of SoftmaxOutput."""
    h = sym.FullyConnected(sym.Variable("data"), num_hidden=widths[0], name="fc0")
    for i, width in enumerate(widths[1:], 1):
        h = sym.FullyConnected(sym.relu(h), num_hidden=width, name=f"fc{i}")
    return sym.SoftmaxOutput(h, name="softmax", **head)


def lenet(sym: Any) -> Any:
    """Data (n, 1, 28, 28) → probabilities of ten classes."""
    h = sym.Variable("data")
    for i, filters in enumerate((20, 50)):
        h = sym.tanh(sym.Convolution(h, kernel=(5, 5), num_filter=filters, name=f"conv{i}"))
        h = sym.Pooling(h, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{i}")
    h = sym.FullyConnected(sym.tanh(sym.FullyConnected(h, num_hidden=500, name="fc0")), num_hidden=10, name="fc1")
    return sym.SoftmaxOutput(h, normalization="batch", name="softmax")


def resnet_units(stages: Sequence[int]) -> list[tuple[str, int, int, bool]]:
    """(name, factor of the width, stride, whether the shortcut is a convolution) of each block of a ResNet."""
    return [
        (f"stage{i}_block{j}", 2**i, 2 if i and not j else 1, not j)
        for i, count in enumerate(stages)
        for j in range(count)
    ]


def resnet(sym: Any, stages: Sequence[int], width: int, classes: int) -> Any:
    """A ResNet of bottleneck blocks with batch normalisation (He et al. 2015), under a softmax."""

    def unit(h: Any, name: str, filters: int, kernel: int, stride: int = 1) -> Any:
        window, steps, pad = ((size, size) for size in (kernel, stride, kernel // 2))
        h = sym.Convolution(h, kernel=window, stride=steps, pad=pad, num_filter=filters, no_bias=True, name=name)
        return sym.BatchNorm(h, fix_gamma=False, name=f"{name}_bn")

    h = sym.relu(unit(sym.Variable("data"), "stem", width, 7, 2))
    h = sym.Pooling(h, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")
    for name, factor, stride, projected in resnet_units(stages):
        short = unit(h, f"{name}_short", 4 * width * factor, 1, stride) if projected else h
        inner = sym.relu(unit(h, f"{name}_a", width * factor, 1, stride))
        inner = sym.relu(unit(inner, f"{name}_b", width * factor, 3))
        h = sym.relu(unit(inner, f"{name}_c", 4 * width * factor, 1) + short)
    h = sym.Flatten(sym.Pooling(h, kernel=(1, 1), global_pool=True, pool_type="avg"))
    return sym.SoftmaxOutput(sym.FullyConnected(h, num_hidden=classes, name="fc"), name="softmax")


def blocks(sym: Any, layers: int, width: int, heads: int, *, pre_norm: bool, dropout: float = 0.0) -> Any:
    """A stack of transformer blocks, data (n, t, width), as GluonNLP writes them; pre_norm: LayerNorm on the branches.

    Otherwise after each sum, as in BERT (Devlin et al. 2018). Four times as wide inside.
    """

    def dropped(h: Any) -> Any:
        return sym.Dropout(h, p=dropout) if dropout else h

    def dense(h: Any, size: int, name: str) -> Any:
        return sym.FullyConnected(h, num_hidden=size, flatten=False, name=name)

    def split_heads(h: Any) -> Any:
        """(n, t, width) → (n · heads, t, width / heads)."""
        parts = sym.transpose(sym.reshape(h, shape=(0, 0, heads, -1)), axes=(0, 2, 1, 3))
        return sym.reshape(parts, shape=(-3, 0, 0))

    def attention(h: Any, name: str) -> Any:
        query, key, value = (split_heads(dense(h, width, f"{name}_{part}")) for part in ("query", "key", "value"))
        weights = sym.softmax(sym.batch_dot(query, key, transpose_b=True) * (width / heads) ** -0.5)
        mixed = sym.reshape(sym.batch_dot(dropped(weights), value), shape=(-4, -1, heads, 0, 0))
        return dense(sym.reshape(sym.transpose(mixed, axes=(0, 2, 1, 3)), shape=(0, 0, -3)), width, f"{name}_out")

    def feed_forward(h: Any, name: str) -> Any:
        wide = sym.LeakyReLU(dense(h, 4 * width, f"{name}_in"), act_type="gelu")
        return dense(dropped(wide), width, f"{name}_back")

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


def lstm(sym: Any, size: int = 512, batch: int = 32) -> Any:
    """Two LSTM layers, data (time, batch, size)."""
    weight = sym.Variable("rnn_parameters", shape=(2 * 4 * size * (2 * size + 2),))
    states = [sym.zeros(shape=(2, batch, size)) for _ in range(2)]
    return sym.RNN(sym.Variable("data"), weight, *states, state_size=size, num_layers=2, mode="lstm", name="rnn")


# -- rows of `zoo.py` --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """One network. shape: of its data at batch 1, axis `batch_axis` is the batch.

    source: the name of a model in MXNet's gluon.model_zoo.vision, or a function of a symbol module.
    head: the loss it is trained with. onnx: whether MXNet's exporter and onnxruntime take part; by_hand: whether
    `by_hand.py` has it.
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


# -- cases of `by_hand.py` ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A symbol with inputs of a realistic size. build: of a symbol module. below: inputs that are whole numbers below a
    bound, by which nothing is differentiated. fixed: further inputs of that kind."""

    build: Callable[[Any], Any]
    shapes: Mapping[str, Shape]
    below: Mapping[str, int] = field(default_factory=dict)
    fixed: Sequence[str] = ()

    def wrt(self, arguments: Iterable[str]) -> list[str]:
        """The arguments by which it is differentiated."""
        return [name for name in arguments if name not in self.below and name not in self.fixed]

    def values(self, net: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Arguments and states of what was built, of a fixed seed."""
        names, shapes, states = net.list_arguments(), self.shapes, []
        if shapes.keys() < set(names):  # MXNet infers nothing of some loops
            inferred, _, states = net.infer_shape(**shapes)
            shapes = dict(zip(names, inferred, strict=True))
        rng = np.random.RandomState(0)
        args = {
            name: rng.randint(0, self.below[name], shapes[name])
            if name in self.below
            else rng.uniform(-0.1, 0.1, shapes[name])
            for name in names
        }
        named = zip(net.list_auxiliary_states(), states, strict=True)
        aux = {name: rng.uniform(0.1, 1, shape).astype(np.float32) for name, shape in named}
        return {name: value.astype(np.float32) for name, value in args.items()}, aux

    def heads(self, shapes: Iterable[Shape]) -> list[np.ndarray]:
        """Head gradients of outputs."""
        rng = np.random.RandomState(1)
        return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]


def _operator(name: str, shape: Shape, **params: Any) -> Case:
    """One operator, whose other inputs follow from the shape of its data."""
    return Case(lambda sym: getattr(sym, name)(sym.Variable("data"), **params), {"data": shape})


def _conv(shape: Shape, filters: int, kernel: int, **params: Any) -> Case:
    window: dict[str, Any] = {"kernel": (kernel, kernel), "pad": (kernel // 2,) * 2, "no_bias": True}
    return _operator("Convolution", shape, num_filter=filters, **window, **params)


def _attention(sym: Any) -> Any:
    query, key, value = map(sym.Variable, ("query", "key", "value"))
    return sym.batch_dot(sym.softmax(sym.batch_dot(query, key, transpose_b=True) * 0.125, axis=-1), value)


STEPS, ITERATIONS, BATCH, WIDTH = 64, 80, 32, 256


def _dense(sym: Any, data: Any, name: str, width: int) -> Any:
    weight, bias = sym.Variable(f"{name}_weight"), sym.Variable(f"{name}_bias")
    return sym.FullyConnected(data, weight, bias, num_hidden=width, name=name)


def _recurrent(sym: Any) -> Any:
    """tanh(W x + U h + b) over 64 steps."""

    def step(data: Any, states: Any) -> Any:
        hidden = sym.tanh(_dense(sym, data, "i2h", WIDTH) + _dense(sym, states[0], "h2h", WIDTH))
        return hidden, [hidden]

    return sym.contrib.foreach(step, sym.Variable("data"), [sym.Variable("state")])[0]


def _lstm_cells(sym: Any) -> Any:
    """MXNet's LSTMCell over 64 steps."""

    def step(data: Any, states: Any) -> Any:
        gates = _dense(sym, data, "i2h", 4 * WIDTH) + _dense(sym, states[0], "h2h", 4 * WIDTH)
        into, forget, candidate, out = sym.SliceChannel(gates, num_outputs=4)
        cell = sym.sigmoid(forget) * states[1] + sym.sigmoid(into) * sym.tanh(candidate)
        hidden = sym.sigmoid(out) * sym.tanh(cell)
        return hidden, [hidden, cell]

    return sym.contrib.foreach(step, sym.Variable("data"), [sym.Variable("state"), sym.Variable("cell")])[0]


def _iterated(sym: Any) -> Any:
    """h ← tanh(U h + b), 64 times of at most 80; the last h and all of them."""

    def step(count: Any, hidden: Any) -> Any:
        hidden = sym.tanh(_dense(sym, hidden, "h2h", WIDTH))
        return hidden, [count + 1, hidden]

    variables = [sym.Variable("count"), sym.Variable("state")]
    outputs, states = sym.contrib.while_loop(
        cond=lambda count, hidden: count < STEPS, func=step, loop_vars=variables, max_iterations=ITERATIONS
    )
    return sym.broadcast_add(outputs if not isinstance(outputs, list) else outputs[0], states[1].expand_dims(0))


_I2H, _H2H = {"i2h_weight": (WIDTH, WIDTH), "i2h_bias": (WIDTH,)}, {"h2h_weight": (WIDTH, WIDTH), "h2h_bias": (WIDTH,)}
_GATES = {name: (4 * shape[0], *shape[1:]) for name, shape in {**_I2H, **_H2H}.items()}
_DATA = {"data": (STEPS, BATCH, WIDTH), "state": (BATCH, WIDTH)}
_LABEL = {"softmax_label": 10}
_LENET = Case(lenet, {"data": (128, 1, 28, 28)}, _LABEL, ("data",))

CASES = {
    "MLP 784-512-256-10": Case(
        lambda sym: perceptron(sym, (512, 256, 10), normalization="batch"), {"data": (128, 784)}, _LABEL, ("data",)
    ),
    "LeNet 28×28": _LENET,
    "LeNet, plain pooling": _LENET,
    "recurrent, foreach": Case(_recurrent, {**_DATA, **_I2H, **_H2H}),
    "lstm, foreach": Case(_lstm_cells, {**_DATA, "cell": (BATCH, WIDTH), **_GATES}),
    "recurrent, while_loop": Case(_iterated, {"count": (1,), "state": (BATCH, WIDTH), **_H2H}, {"count": 1}),
    "conv dense 3x3": _conv((8, 64, 56, 56), 64, 3),
    "conv strided 3x3": _conv((8, 64, 56, 56), 128, 3, stride=(2, 2)),
    "conv 1x1": _conv((8, 64, 56, 56), 256, 1),
    "conv grouped 32": _conv((8, 128, 28, 28), 128, 3, num_group=32),
    "conv depth-wise 3x3": _conv((16, 32, 112, 112), 32, 3, num_group=32),
    "conv depth-wise strided": _conv((16, 32, 112, 112), 32, 3, num_group=32, stride=(2, 2)),
    "pool max 3x3 stride 2": _operator("Pooling", (16, 64, 112, 112), pool_type="max", kernel=(3, 3), stride=(2, 2)),
    "pool max 2x2": _operator("Pooling", (16, 64, 112, 112), pool_type="max", kernel=(2, 2), stride=(2, 2)),
    "pool avg 3x3 stride 2": _operator("Pooling", (16, 64, 112, 112), pool_type="avg", kernel=(3, 3), stride=(2, 2)),
    "BatchNorm": _operator("BatchNorm", (32, 64, 56, 56), fix_gamma=False),
    "LayerNorm": _operator("LayerNorm", (32, 128, 512)),
    "softmax": _operator("softmax", (4096, 1000), axis=-1),
    "log_softmax": _operator("log_softmax", (4096, 1000), axis=-1),
    **{
        mode: _operator("RNN", (35, 32, 200), mode=mode, state_size=200, num_layers=1)
        for mode in ("rnn_tanh", "lstm", "gru")
    },
    "Embedding": Case(
        lambda sym: sym.Embedding(sym.Variable("data"), input_dim=30000, output_dim=256),
        {"data": (64, 128)},
        {"data": 30000},
    ),
    "attention (batch_dot)": Case(_attention, dict.fromkeys(("query", "key", "value"), (96, 128, 64))),
    "FullyConnected": _operator("FullyConnected", (128, 1024), num_hidden=1024),
}

SMALL = Case(partial(perceptron, widths=(8,) * 80), {"data": (4, 8)}, {"softmax_label": 8})
"""160 small parameters: what a call of it takes is not arithmetic."""
