"""Four small networks, their data, order, first weights and optimisers: trained 100 steps by MXNet 1.9.1 and by us.

Everything comes from seeded `numpy.random.RandomState`s, whose numbers no version of NumPy changes. `network` is built
with MXNet's `mx.sym` and with ours, so this module imports neither.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]

STEPS = 100
BATCH = 16
BATCHES = 20
"""Batches in the data; they are gone through in a new order in every epoch."""


@dataclass(frozen=True)
class TrainingCase:
    """A network, its data and its optimisers.

    network(sym): the symbol; its last argument is the label. data(random): all inputs, labels included, of
    BATCHES · BATCH examples; first axis: examples. optimizers: MXNet's parameters by MXNet's name.
    """

    name: str
    network: Callable[[Any], Any]
    data: Callable[[np.random.RandomState], Arrays]
    optimizers: dict[str, dict[str, float]]
    label: str = "softmax_label"

    def inputs(self) -> Arrays:
        """The whole data."""
        return self.data(np.random.RandomState(1))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs' shapes, with the batch's size."""
        return {name: (BATCH, *value.shape[1:]) for name, value in self.inputs().items()}

    def batches(self) -> Iterator[Arrays]:
        """One batch for each step."""
        inputs, random = self.inputs(), np.random.RandomState(2)
        orders = [random.permutation(BATCHES * BATCH) for _ in range(0, STEPS, BATCHES)]
        for chosen in np.concatenate(orders).reshape(-1, BATCH)[:STEPS]:
            yield {name: value[chosen] for name, value in inputs.items()}

    def initial(self, shapes: dict[str, tuple[int, ...]]) -> Arrays:
        """First values of the parameters: He-normal weights, ones for scales, zeros for the rest."""
        random = np.random.RandomState(3)
        values: Arrays = {}
        for name in sorted(shapes):
            shape = shapes[name]
            if name.endswith(("gamma", "var")):
                values[name] = np.ones(shape, np.float32)
            elif name.endswith(("beta", "bias", "mean")):
                values[name] = np.zeros(shape, np.float32)
            else:
                fan_in = np.prod(shape[1:]) if len(shape) > 1 else HIDDEN
                values[name] = (random.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)
        return values

    def loss(self, output: np.ndarray, batch: Arrays) -> float:
        """The batch's mean loss, from the network's output: cross entropy, or half the squared error."""
        label = batch[self.label]
        if output.ndim == 1:
            return float(np.mean((output.astype(np.float64) - label) ** 2) / 2)
        rows = output.reshape(-1, output.shape[-1]).astype(np.float64)
        return float(-np.mean(np.log(rows[np.arange(len(rows)), label.reshape(-1).astype(int)] + 1e-12)))


# -- LeNet (LeCun et al., 1998) --------------------------------------------------------------------------------------


def _lenet(sym: Any) -> Any:
    net = sym.Variable("data")
    for i, filters in enumerate((8, 16), 1):
        net = sym.Convolution(net, kernel=(5, 5), num_filter=filters, name=f"conv{i}")
        net = sym.Activation(net, act_type="tanh", name=f"tanh{i}")
        net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{i}")
    net = sym.FullyConnected(sym.Flatten(net), num_hidden=32, name="fc1")
    net = sym.FullyConnected(sym.Activation(net, act_type="tanh"), num_hidden=10, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def _images(size: int, channels: int, noise: float) -> Callable[[np.random.RandomState], Arrays]:
    def data(random: np.random.RandomState) -> Arrays:
        """Noisy copies of ten images, one for each class, of 4 × 4 tiles."""
        images = np.kron(random.standard_normal((10, channels, 4, 4)), np.ones((size // 4, size // 4)))
        labels = random.randint(0, 10, BATCHES * BATCH)
        noisy = images[labels] + noise * random.standard_normal((len(labels), channels, size, size))
        return {"data": noisy.astype(np.float32), "softmax_label": labels.astype(np.float32)}

    return data


# -- ResNet-20 (He et al., 2016), with a quarter of the filters, and ELU (Shah et al., 2016) ---------------------------
#
# Not ReLU, whose derivative jumps: with it MXNet does not agree with itself after 100 steps when the first weights move
# by one unit in the last place (docs/reference/training_parity.md).


def _resnet20(sym: Any, relu: bool = False) -> Any:
    def conv_bn(x: Any, filters: int, kernel: int, stride: int, name: str) -> Any:
        pad = (kernel // 2, kernel // 2)
        x = sym.Convolution(
            x,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            pad=pad,
            num_filter=filters,
            no_bias=True,
            name=f"{name}_conv",
        )
        return sym.BatchNorm(x, fix_gamma=False, eps=1e-3, momentum=0.9, name=f"{name}_bn")

    def bend(x: Any) -> Any:
        return sym.Activation(x, act_type="relu") if relu else sym.LeakyReLU(x, act_type="elu", slope=1.0)

    net = bend(conv_bn(sym.Variable("data"), 4, 3, 1, "stem"))
    for stage, filters in enumerate((4, 8, 16), 1):
        for block in range(1, 4):
            name, stride = f"stage{stage}_block{block}", 2 if stage > 1 and block == 1 else 1
            branch = bend(conv_bn(net, filters, 3, stride, f"{name}_a"))
            branch = conv_bn(branch, filters, 3, 1, f"{name}_b")
            shortcut = conv_bn(net, filters, 1, stride, f"{name}_shortcut") if stride > 1 else net
            net = bend(branch + shortcut)
    net = sym.Pooling(net, kernel=(1, 1), global_pool=True, pool_type="avg", name="pool")
    net = sym.FullyConnected(sym.Flatten(net), num_hidden=10, name="fc")
    return sym.SoftmaxOutput(net, name="softmax")


# -- LSTM: the next symbol of a sequence -----------------------------------------------------------------------------

LENGTH, SYMBOLS, HIDDEN, LAYERS = 8, 12, 16, 2


def _lstm(sym: Any) -> Any:
    net = sym.Embedding(sym.Variable("data"), input_dim=SYMBOLS, output_dim=HIDDEN, name="embed")  # (n, t, c)
    states = [sym.zeros(shape=(LAYERS, BATCH, HIDDEN)) for _ in range(2)]
    net = sym.RNN(
        sym.transpose(net, axes=(1, 0, 2)),
        sym.Variable("lstm_parameters"),
        *states,
        state_size=HIDDEN,
        num_layers=LAYERS,
        mode="lstm",
        name="lstm",
    )
    net = sym.Reshape(sym.transpose(net, axes=(1, 0, 2)), shape=(-1, HIDDEN))
    net = sym.FullyConnected(net, num_hidden=SYMBOLS, name="fc")
    return sym.SoftmaxOutput(net, sym.Reshape(sym.Variable("softmax_label"), shape=(-1,)), name="softmax")


def _sequences(random: np.random.RandomState) -> Arrays:
    """Symbols that count up by the step between the first two, now and then by another."""
    count = BATCHES * BATCH
    steps = random.randint(1, 4, (count, 1)) * np.arange(LENGTH + 1)
    noise = np.cumsum(random.uniform(size=(count, LENGTH + 1)) < 0.1, axis=1)
    text = (random.randint(0, SYMBOLS, (count, 1)) + steps + noise) % SYMBOLS
    return {"data": text[:, :-1].astype(np.float32), "softmax_label": text[:, 1:].astype(np.float32)}


# -- matrix factorisation --------------------------------------------------------------------------------------------

USERS, ITEMS, FACTORS = 50, 40, 8


def _factorization(sym: Any) -> Any:
    user = sym.Embedding(sym.Variable("user"), input_dim=USERS, output_dim=FACTORS, name="user_factors")
    item = sym.Embedding(sym.Variable("item"), input_dim=ITEMS, output_dim=FACTORS, name="item_factors")
    item = sym.FullyConnected(item, num_hidden=FACTORS, name="fc")
    return sym.LinearRegressionOutput(sym.sum(user * item, axis=1), sym.Variable("score_label"), name="score")


def _ratings(random: np.random.RandomState) -> Arrays:
    users, items = random.randint(0, USERS, BATCHES * BATCH), random.randint(0, ITEMS, BATCHES * BATCH)
    tastes, kinds = random.standard_normal((USERS, 3)), random.standard_normal((ITEMS, 3))
    scores = np.sum(tastes[users] * kinds[items], axis=1) + 0.1 * random.standard_normal(len(users))
    named = {"user": users, "item": items, "score_label": scores}
    return {name: value.astype(np.float32) for name, value in named.items()}


CASES = (
    TrainingCase(
        "lenet",
        _lenet,
        _images(20, 1, 1.0),
        {"sgd": {"learning_rate": 0.01, "momentum": 0.9, "wd": 1e-3}, "adam": {"learning_rate": 2e-3, "wd": 1e-3}},
    ),
    TrainingCase(
        "resnet20",
        _resnet20,
        _images(8, 3, 0.3),
        {"sgd": {"learning_rate": 0.02, "momentum": 0.9, "wd": 1e-3}, "adam": {"learning_rate": 4e-3, "wd": 1e-3}},
    ),
    TrainingCase(
        "lstm",
        _lstm,
        _sequences,
        {"sgd": {"learning_rate": 0.05, "momentum": 0.9, "wd": 1e-4}, "adam": {"learning_rate": 5e-3, "wd": 1e-4}},
    ),
    TrainingCase(
        "factorization",
        _factorization,
        _ratings,
        {"sgd": {"learning_rate": 0.1, "momentum": 0.9, "wd": 1e-3}, "adam": {"learning_rate": 2e-2, "wd": 1e-3}},
        label="score_label",
    ),
)

WITH_RELU = replace(CASES[1], name="resnet20_relu", network=partial(_resnet20, relu=True))
"""To show how far MXNet strays from itself; there is nothing to compare with."""
