"""Gluon and MXNet's scripts: training steps, inference, eager calls, and work whose shapes change in each call.

    python benchmarks/gluon.py steps [--rounds 9] [--mxnet PYTHON] [--only lenet eager]
    python benchmarks/gluon.py shapes [--only LSTM]
    mxnet-env/bin/python benchmarks/gluon.py shapes
    python benchmarks/gluon.py memory [--only eager]
    mxnet-env/bin/python benchmarks/gluon.py memory

steps: all take turns. A training step is record, backward and `Trainer.step` with SGD and momentum, until the
parameters are there; `lowering.Trainer` runs the same loss of the same network. Inference outside of `record()` and a
Predictor get an array that is on the device. Eager rows are of a thousand calls. --mxnet: the Python of an environment
with MXNet 1.9.1, which runs the same lines in a process of its own.

shapes: milliseconds of processor time. first: the first call, which makes what does not depend on shapes, too. new: a
call of a shape that was not there before. again: a call when all shapes were there.

memory: by how many MB the process grows in each tenth of many calls whose shapes change, after the first tenth.
"""

from __future__ import annotations

import importlib
import importlib.util
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import compare, run
from benchmarks.networks import lenet


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


def call_of(mx: Any, kind: str, name: str) -> Callable[[], None]:
    """What a row times. mx: either library."""
    if kind == "eager":
        return _many(eager_call(mx, name))
    return training_step(mx, name) if kind == "train" else inference(mx, name)


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

    gluon = {"Gluon": call_of(mx, kind, name)}
    if kind == "eager":
        return gluon
    return {**gluon, "Trainer or Predictor": (_trainer_step if kind == "train" else _prediction)(name)}


def steps(rounds: int = 9, only: tuple[str, ...] = (), mxnet: str | None = None) -> None:
    """Print milliseconds of training steps, inference and eager calls."""
    import lowering

    names = [*((kind, name) for kind in ("train", "infer") for name in NETWORKS), *(("eager", name) for name in EAGER)]
    rows = {row: partial(_calls, *row) for row in names}
    ways = ("Gluon", "Trainer or Predictor")
    with lowering.effort("full"):  # as calls run after the first
        compare(("", "network"), ways, rows, "gluon", mxnet, only, rounds=rounds, seconds=0.5, pause=0.1)


# -- shapes that change ------------------------------------------------------------------------------------------------


def _perceptron(mx: Any) -> Any:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(32, activation="relu"), mx.gluon.nn.Dense(10))
    net.initialize()
    net.hybridize()
    return lambda n: net(mx.nd.ones((n, 20))).asnumpy()


def _recurrent(mx: Any, layer: Any, run: Callable[[Any, int], Any]) -> Any:
    layer.initialize()
    weight = next(iter(layer.collect_params().values()))

    def step(n: int) -> None:
        with mx.autograd.record():
            loss = run(layer, n).sum()
        loss.backward()
        weight.grad().asnumpy()

    return step


def _residual_network(mx: Any, hybridised: bool) -> Any:
    net = mx.gluon.model_zoo.vision.resnet18_v2(classes=10)
    net.initialize()
    net.hybridize(hybridised)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def step(n: int) -> None:
        with mx.autograd.record():
            losses = loss(net(mx.nd.ones((n, 3, 64, 64))), mx.nd.zeros((n,)))
        losses.backward()
        trainer.step(n)
        losses.mean().asscalar()

    return step


def _fitted_module(mx: Any) -> Any:
    symbol = lenet(mx.sym)

    def fit(n: int) -> None:
        digits = mx.io.NDArrayIter(np.ones((n, 1, 28, 28), "f"), np.zeros(n, "f"), n)
        mx.mod.Module(symbol).fit(digits, num_epoch=1)

    return fit


def _buckets(mx: Any) -> Any:
    def network(length: int) -> Any:
        data = mx.sym.Embedding(mx.sym.var("data"), input_dim=100, output_dim=16)
        outputs, _ = mx.rnn.LSTMCell(32).unroll(length, data, merge_outputs=True)
        outputs = mx.sym.FullyConnected(mx.sym.reshape(outputs, (-1, 32)), num_hidden=100)
        labels = mx.sym.reshape(mx.sym.var("softmax_label"), (-1,))
        return mx.sym.SoftmaxOutput(outputs, labels, name="softmax"), ("data",), ("softmax_label",)

    def shapes(n: int) -> dict[str, Any]:
        return {"data": [("data", (4, n))], "label": [("softmax_label", (4, n))]}

    module = mx.mod.BucketingModule(network, 40)
    module.bind(*shapes(40).values())
    module.init_params()
    module.init_optimizer()

    def step(n: int) -> None:
        ones = [mx.nd.ones((4, n))]
        batch = mx.io.DataBatch(ones, ones, bucket_key=n, **{f"provide_{k}": v for k, v in shapes(n).items()})
        module.forward_backward(batch)
        module.update()
        module.get_outputs()[0].asnumpy()

    return step


def _works(mx: Any) -> dict[str, tuple[Callable[[], Any], int]]:
    """What runs, and what changes → what makes a function of a size, and how many sizes."""
    nd, rows = mx.nd, mx.nd.ones((200, 10))
    below = lambda n: nd.array((np.arange(200) < n).astype("f"))  # noqa: E731
    layer, cell = mx.gluon.rnn.LSTM, mx.gluon.rnn.LSTMCell
    unrolled = lambda cell, n: cell.unroll(n, nd.ones((4, n, 16)), merge_outputs=True)[0]  # noqa: E731
    return {
        "three operators, rows": (lambda: lambda n: (nd.ones((n, 10)) * 2 + 1).sum(axis=0).asnumpy(), 20),
        "the sum of a slice, its end": (lambda: lambda n: rows[: n + 1].sum().asnumpy(), 40),
        "boolean_mask, hits": (lambda: lambda n: nd.contrib.boolean_mask(rows, below(n)).asnumpy(), 20),
        "a hybridised perceptron, batch": (lambda: _perceptron(mx), 20),
        "LSTM(32) with gradients, length": (
            lambda: _recurrent(mx, layer(32), lambda layer, n: layer(nd.ones((n, 4, 16)))),
            8,
        ),
        "LSTMCell.unroll with gradients, length": (lambda: _recurrent(mx, cell(32), unrolled), 8),
        "ResNet-18, hybridised, a step, batch": (lambda: _residual_network(mx, True), 3),
        "ResNet-18, eager, a step, batch": (lambda: _residual_network(mx, False), 3),
        "Module.fit of LeNet, a batch, its size": (lambda: _fitted_module(mx), 3),
        "BucketingModule, LSTM, length": (lambda: _buckets(mx), 6),
    }


def _of_interpreter() -> Any:
    """Our library where the interpreter has JAX, else MXNet."""
    has_ours = importlib.util.find_spec("jax") is not None
    return importlib.import_module("lowering.mx" if has_ours else "mxnet")


def shapes(only: tuple[str, ...] = ()) -> None:
    """Print what calls of new shapes take, in the library that the interpreter has."""
    mx = _of_interpreter()
    print(f"{'':40} {'first':>8} {'new':>8} {'again':>8}")
    for name, (make, count) in _works(mx).items():
        if only and not any(word in name for word in only):
            continue
        call, times = make(), []
        for sizes in ((3,), (4,), range(5, 5 + count), range(5, 5 + count)):
            began = time.process_time()
            for size in sizes:
                call(size)
            times.append((time.process_time() - began) * 1e3 / len(sizes))
        print(f"{name:40} {times[0]:8.1f} {times[2]:8.1f} {times[3]:8.1f}", flush=True)


def _eager_step(mx: Any) -> Callable[[int], None]:
    weight = mx.nd.ones((10, 4))
    weight.attach_grad()

    def step(n: int) -> None:
        with mx.autograd.record():
            loss = (mx.nd.dot(mx.nd.ones((n, 10)), weight) ** 2).sum()
        loss.backward()
        weight[:] = weight - 0.01 * mx.nd.clip(weight.grad, -1, 1)

    return step


def memory(only: tuple[str, ...] = ()) -> None:
    """Print by how much memory grows, in the library that the interpreter has."""
    mx = _of_interpreter()
    for name, make, calls, count in (
        ("eager steps", _eager_step, 20_000, 20_000),
        ("calls of a hybridised perceptron", _perceptron, 5_000, 500),
    ):
        if only and not any(word in name for word in only):
            continue
        call, sizes = make(mx), []
        for number in range(calls):
            call(3 + number * 7919 % count)
            if (number + 1) % (calls // 10) == 0:
                mx.nd.waitall()
                sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6)
        grown = " ".join(f"{size - sizes[0]:.0f}" for size in sizes[1:])
        print(f"{calls:,} {name}, {count:,} shapes: {sizes[0]:.0f} MB after a tenth; MB more: {grown}", flush=True)


if __name__ == "__main__":
    run(__doc__, steps, shapes, memory)
