"""Make the goldens of files that MXNet 1.9.1 exports under `npx.set_np()`: networks, with outputs and gradients.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.numpy_files.make

For each network there are `NAME-symbol.json` and `NAME-0000.params` as `HybridBlock.export` writes them, and in
`values.npz` arrays `{name}|x0`, …, `{name}|y`, and the gradients of ½ Σ y² in training, `{name}|grad|{parameter}`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx  # type: ignore[import-not-found]
from mxnet.gluon import nn, rnn  # type: ignore[import-not-found]

from tests.goldens.make import save

HERE = Path(__file__).parent


class Of(nn.HybridBlock):
    """A network written as a function of F, the data and its layers."""

    def __init__(self, function: Callable[..., Any], *layers: Any):
        super().__init__(prefix="")
        self._function = function
        for i, layer in enumerate(layers):
            setattr(self, f"layer{i}", layer)
        self._layers = layers

    def hybrid_forward(self, F: Any, *inputs: Any) -> Any:
        return self._function(F, *inputs, *self._layers)


def sequence(*layers: Any) -> Any:
    net = nn.HybridSequential(prefix="")
    net.add(*layers)
    return net


def _residual(F: Any, x: Any, first: Any, second: Any, third: Any) -> Any:
    return F.npx.relu(third(second(F.npx.relu(first(x)))) + x)


def _arithmetic(F: Any, x: Any, dense: Any) -> Any:
    y = dense(x)
    a = (y + 1.5) * 2 / 3 - y**2 + 1 / (y * y + 1)
    b = F.np.mean(a, axis=1, keepdims=True)
    c = F.np.sum(F.np.tanh(a - b), axis=-1)
    e = F.np.concatenate([F.np.expand_dims(c, 1), b], axis=1)
    return F.np.exp(-e) + (F.np.max(y) - F.np.min(y)) + F.np.sqrt(F.np.abs(e) + 1)


def _shapes(F: Any, x: Any, dense: Any) -> Any:
    z = F.np.transpose(F.np.reshape(dense(x), (-1, 2, 4)), (0, 2, 1))
    s = F.np.stack([z, z * 2], axis=1)
    a, b = F.np.split(F.np.squeeze(F.np.expand_dims(s, 0), 0), 2, axis=1)
    w = F.np.where(a > b, a, b)
    f = F.npx.reshape(F.np.flip(w, 2), (-2, -5, -1))
    r = F.np.roll(f, 1, axis=1)[:, 1:]
    return F.np.dot(F.np.sum(r, axis=2), F.np.ones((3, 2)) + F.np.arange(2))


def _attention(F: Any, x: Any, queries: Any, keys: Any, values: Any, norm: Any) -> Any:
    scores = F.npx.batch_dot(queries(x), keys(x), transpose_b=True) / 2.0
    return norm(x + F.npx.batch_dot(F.npx.softmax(scores), values(x))) * x


def _a_number(F: Any, x: Any, dense: Any) -> Any:
    return F.np.sum(F.np.square(dense(x))) * 0.5 + F.np.mean(x)


def _loss(F: Any, x: Any, dense: Any) -> Any:
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss(prefix="")
    return loss(dense(x), F.np.argmax(F.np.abs(x[:, :3]), axis=1))


def _dense(units: int, **kwargs: Any) -> Any:
    return nn.Dense(units, flatten=False, **kwargs)


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[tuple[int, ...], ...]]] = {
    "mlp": (lambda: sequence(nn.Dense(8, activation="relu"), nn.Dropout(0.0), nn.Dense(3)), ((2, 4),)),
    "lenet": (
        lambda: sequence(
            nn.Conv2D(2, 3, padding=1, activation="sigmoid"),
            nn.AvgPool2D(2, 2),
            nn.Conv2D(3, 3, activation="tanh"),
            nn.MaxPool2D(2, 2),
            nn.Dense(4, activation="sigmoid"),
            nn.Dense(3),
        ),
        ((2, 1, 12, 12),),
    ),
    "hybrid_net": (
        lambda: Of(lambda F, x, hidden, output: output(F.npx.relu(hidden(x))), nn.Dense(5), nn.Dense(2)),
        ((2, 4),),
    ),
    "residual": (
        lambda: sequence(
            Of(_residual, nn.BatchNorm(), nn.Conv2D(3, 3, padding=1, use_bias=False), nn.BatchNorm()),
            nn.GlobalAvgPool2D(),
            nn.Dense(2),
        ),
        ((2, 3, 4, 4),),
    ),
    "lstm": (
        lambda: Of(
            lambda F, x, h, c, lstm, dense: dense(lstm(x, [h, c])[0]),
            rnn.LSTM(3, num_layers=2, layout="NTC", input_size=2),
            _dense(2, in_units=3),
        ),
        ((2, 4, 2), (2, 2, 3), (2, 2, 3)),
    ),
    "arithmetic": (lambda: Of(_arithmetic, nn.Dense(5)), ((3, 4),)),
    "shapes": (lambda: Of(_shapes, nn.Dense(8)), ((3, 4),)),
    "attention": (
        lambda: Of(_attention, _dense(4), _dense(4, use_bias=False), _dense(4), nn.LayerNorm()),
        ((2, 3, 4),),
    ),
    "a_number": (lambda: Of(_a_number, nn.Dense(3)), ((2, 4),)),
    "loss": (lambda: Of(_loss, nn.Dense(3)), ((2, 4),)),
}


def exported(name: str) -> dict[str, np.ndarray]:
    """Export a network. Its values by their names in the file."""
    make, shapes = NETWORKS[name]
    with mx.name.NameManager():
        net = make()
    net.initialize(mx.init.Xavier())
    rng = np.random.RandomState(len(name))
    inputs = [mx.np.array(rng.uniform(-1, 1, shape).astype(np.float32)) for shape in shapes]
    net(*inputs)
    net.hybridize()
    y = net(*inputs).asnumpy()
    with mx.autograd.record():
        half = (net(*inputs) ** 2).sum() / 2
    half.backward()
    values = {f"{name}|x{i}": x.asnumpy() for i, x in enumerate(inputs)} | {f"{name}|y": y}
    for key, parameter in net.collect_params().items():
        if parameter.grad_req != "null":
            values[f"{name}|grad|{key}"] = parameter.grad().asnumpy()
    for parameter in net.collect_params().values():
        if parameter.grad_req == "null":  # the moving averages, as they were before the step
            parameter.set_data(mx.np.ones_like(parameter.data()) * ("var" in parameter.name))
    net.export(str(HERE / name))
    return values


def main() -> None:
    """Write all of them."""
    mx.npx.set_np()
    mx.random.seed(7)
    stored: dict[str, np.ndarray] = {}
    for name in NETWORKS:
        stored.update(exported(name))
        print(name)
    save(HERE / "values.npz", stored)


if __name__ == "__main__":
    main()
