"""Gluon: a hybridised training step beside `lowering.Trainer`'s and MXNet's, inference beside a Predictor, eager calls.

    python benchmarks/gluon.py [--rounds 9] [--mxnet PYTHON] [--only lenet eager]

All take turns. A training step is record, backward and `Trainer.step` with SGD and momentum, until the parameters are
there; `lowering.Trainer` runs the same loss of the same network. Inference outside of `record()` and a Predictor get an
array that is on the device. Eager rows are of a thousand calls. --mxnet: the Python of an environment with MXNet 1.9.1,
which runs the same lines in a process of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import Loaded, compare


class Network(NamedTuple):
    """A network to be trained. build: of the module `gluon`. classes: labels are below it, and data that are words."""

    build: Callable[[Any], Any]
    data: tuple[int, ...]
    label: tuple[int, ...]
    classes: int
    words: bool = False


def _lenet(gluon: Any) -> Any:
    nn = gluon.nn
    net = nn.HybridSequential()
    net.add(nn.Conv2D(20, 5, activation="tanh"), nn.MaxPool2D(2, 2), nn.Conv2D(50, 5, activation="tanh"))
    net.add(nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(500, activation="tanh"), nn.Dense(10))
    return net


def _resnet(gluon: Any) -> Any:
    return gluon.model_zoo.vision.resnet18_v1()


def _lstm(gluon: Any) -> Any:
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Embedding(2000, 200), gluon.rnn.LSTM(200, num_layers=2), gluon.nn.Dense(2000, flatten=False))
    return net


def _bert(gluon: Any) -> Any:
    """Four blocks of an encoder of 256 units, its words and its positions."""
    nn = gluon.nn
    units, heads, length = 256, 4, 128

    class Attention(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.joined, self.out = nn.Dense(3 * units, flatten=False), nn.Dense(units, flatten=False)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            query, key, value = (
                F.reshape(F.transpose(F.reshape(part, (0, 0, heads, -1)), (0, 2, 1, 3)), (-3, 0, 0))
                for part in F.split(self.joined(x), 3, axis=2)
            )
            scores = F.softmax(F.batch_dot(query, key, transpose_b=True) / (units // heads) ** 0.5)
            mixed = F.reshape(F.batch_dot(scores, value), (-4, -1, heads, 0, 0))
            return self.out(F.reshape(F.transpose(mixed, (0, 2, 1, 3)), (0, 0, -3)))

    class Encoder(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.attention, self.first, self.second = Attention(), nn.LayerNorm(), nn.LayerNorm()
                self.wide, self.narrow = nn.Dense(4 * units, flatten=False), nn.Dense(units, flatten=False)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            x = self.first(x + self.attention(x))
            return self.second(x + self.narrow(F.LeakyReLU(self.wide(x), act_type="gelu")))

    class Positions(gluon.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(1, length, units))

        def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
            return F.broadcast_add(x, weight)

    net = nn.HybridSequential()
    net.add(nn.Embedding(2000, units), Positions(), *(Encoder() for _ in range(4)), nn.Dense(2000, flatten=False))
    return net


NETWORKS = {
    "lenet b64": Network(_lenet, (64, 1, 28, 28), (64,), 10),
    "resnet18 b16": Network(_resnet, (16, 3, 224, 224), (16,), 1000),
    "lstm b32": Network(_lstm, (35, 32), (35, 32), 2000, words=True),
    "bert-small b8": Network(_bert, (8, 128), (8, 128), 2000, words=True),
}


def _values(network: Network) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(0)
    data = random.randint(0, network.classes, network.data) if network.words else random.normal(size=network.data)
    return data.astype("float32"), random.randint(0, network.classes, network.label).astype("float32")


class _Trained(NamedTuple):
    net: Any
    loss: Any
    data: Any
    label: Any


def _trained(mx: Any, name: str) -> _Trained:
    """A network with first values, hybridised, and its data."""
    network = NETWORKS[name]
    mx.random.seed(0)
    net, loss = network.build(mx.gluon), mx.gluon.loss.SoftmaxCrossEntropyLoss()
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    loss.hybridize(static_alloc=True, static_shape=True)
    data, label = map(mx.nd.array, _values(network))
    net(data).wait_to_read()
    return _Trained(net, loss, data, label)


def training_step(mx: Any, name: str) -> Callable[[], None]:
    """A step of a hybridised network. mx: either library."""
    net, loss, data, label = _trained(mx, name)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9})
    last = list(net.collect_params().values())[-1]

    def call() -> None:
        with mx.autograd.record():
            losses = loss(net(data), label)
        losses.backward()
        trainer.step(len(data))
        last.data().wait_to_read()

    return call


def inference(mx: Any, name: str) -> Callable[[], None]:
    """A forward pass of a hybridised network. mx: either library."""
    net, _, data, _ = _trained(mx, name)
    return lambda: net(data).wait_to_read()


EAGER = ("a + b", "a * 2", "reshape", "slice", "FullyConnected", "softmax", "three operators, recorded, with backward")


def eager_call(mx: Any, name: str) -> Callable[[], Any]:
    """A call of operators on small arrays, one of `EAGER`. mx: either library."""
    nd, autograd = mx.nd, mx.autograd
    x, y = nd.ones((8, 8)), nd.ones((8, 8))
    weight, bias, data = nd.ones((8, 8)), nd.ones((8,)), nd.ones((8, 8))
    data.attach_grad()

    def recorded() -> Any:
        with autograd.record():
            out = nd.sum(nd.relu(nd.FullyConnected(data, weight, bias, num_hidden=8)))
        out.backward()
        return data.grad

    calls = (
        lambda: x + y,
        lambda: x * 2,
        lambda: x.reshape((4, 16)),
        lambda: x[2:4],
        lambda: nd.FullyConnected(x, weight, bias, num_hidden=8),
        lambda: nd.softmax(x),
        recorded,
    )
    return calls[EAGER.index(name)]


def _many(call: Callable[[], Any]) -> Callable[[], None]:
    def calls() -> None:
        for _ in range(999):
            call()
        call().wait_to_read()

    return calls


def load_in_mxnet(kind: str, name: str) -> Loaded:
    """What a row times, in MXNet."""
    import mxnet as mx  # type: ignore[import-not-found]

    made = {"train": training_step, "infer": inference, "eager": lambda mx, name: _many(eager_call(mx, name))}
    return Loaded(made[kind](mx, name))


def _trainer_step(name: str) -> Callable[[], None]:
    """The same step by `lowering.Trainer`."""
    import jax

    import lowering
    from lowering import mx

    net, loss, data, label = _trained(mx, name)
    head = mx.sym.MakeLoss(loss(net(mx.sym.var("data")), mx.sym.var("label")))
    network = NETWORKS[name]
    trainer = lowering.Trainer(
        head, "sgd", {"learning_rate": 0.01, "momentum": 0.9}, data_names=("data",), label_names=("label",)
    )
    trainer.init(0, data=network.data, label=network.label)
    batch = {"data": data.value, "label": label.value}

    def call() -> None:
        trainer.step(batch)
        jax.block_until_ready(trainer.state)

    return call


def _prediction(name: str) -> Callable[[], None]:
    """The same outputs by a Predictor."""
    import jax

    import lowering
    from lowering import mx

    net, _, data, _ = _trained(mx, name)
    symbol = net(mx.sym.var("data"))
    values = {name: parameter.data().value for name, parameter in net.collect_params().items()}
    states = symbol.list_auxiliary_states()
    args = {name: value for name, value in values.items() if name not in states}
    predict = lowering.Predictor(symbol, args, {name: values[name] for name in states})
    return lambda: jax.block_until_ready(predict(data=data.value))


def _calls(kind: str, name: str) -> dict[str, Callable[[], Any]]:
    """Gluon's call, and the same by a Trainer or a Predictor."""
    from lowering import mx

    if kind == "eager":
        return {"Gluon": _many(eager_call(mx, name))}
    gluon, reference = (training_step, _trainer_step) if kind == "train" else (inference, _prediction)
    return {"Gluon": gluon(mx, name), "Trainer or Predictor": reference(name)}


ROWS = {
    **{(kind, name): partial(_calls, kind, name) for kind in ("train", "infer") for name in NETWORKS},
    **{("eager", name): partial(_calls, "eager", name) for name in EAGER},
}

if __name__ == "__main__":
    ways = ("Gluon", "Trainer or Predictor")
    compare(__doc__, ("", "network"), ways, ROWS, load_in_mxnet, rounds=9, seconds=0.5, pause=0.1)
