"""Make the goldens of files that MXNet 1.9.1 exports under `npx.set_np()`: networks, with outputs and gradients.

Run by hand, in the environment of `tests/goldens/make.py`, from the project's root:

    mxnet-env/bin/python -m tests.goldens.numpy_files.make

For each network there are `NAME-symbol.json` and `NAME-0000.params` as `HybridBlock.export` writes them, and in
`values.npz` arrays `{name}|x0`, …, `{name}|y`, of several outputs `{name}|y0`, …, and the gradients of ½ Σ y² in
training, `{name}|grad|{parameter}`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np
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


def _einsum(F: Any, x: Any, y: Any, queries: Any) -> Any:
    pairs = F.np.einsum("bid,bjd->bij", queries(x), y)
    return F.np.einsum("bij,bjd->id", pairs, y) + F.np.tensordot(x, y, axes=((0, 2), (0, 2)))[:, :1]


def _picked(F: Any, x: Any, indices: Any, dense: Any) -> Any:
    y = dense(x)
    chosen = F.npx.pick(y, indices, axis=1) + F.npx.topk(y, k=1, ret_typ="value").squeeze()
    places = F.npx.one_hot(F.npx.topk(y, k=2, ret_typ="indices"), 5)
    return F.np.expand_dims(chosen, 1) * F.np.sum(places, axis=1) + F.np.take(y, indices, axis=0, mode="clip")


def _chosen(F: Any, x: Any, dense: Any) -> Any:
    first, second = F.np.hsplit(dense(x), 2)
    higher = F.np.where(first > second, F.np.maximum(first, 0.1), F.np.minimum(second, 0.5) * 2)
    rows = F.np.vstack([higher, F.np.clip(first, -0.5, 0.5)])
    return F.np.concatenate([rows, F.np.flip(rows, axis=0), F.np.tril(rows)], axis=-1) % 0.75


def _bert(
    F: Any, x: Any, lengths: Any, projected: Any, output: Any, first: Any, second: Any, wide: Any, back: Any
) -> Any:
    heads = F.npx.reshape(projected(x), (-2, -2, 2, 6))  # (batch, time, heads, queries, keys and values)
    queries, keys, values = F.np.split(F.np.transpose(heads, (0, 2, 1, 3)), 3, axis=-1)
    scores = F.np.matmul(queries, F.np.swapaxes(keys, 2, 3)) / 2**0.5
    seen = F.np.expand_dims(F.np.expand_dims(F.np.arange(3) < F.np.expand_dims(lengths, 1), 1), 1)
    weights = F.npx.softmax(F.np.where(seen, scores, F.np.full_like(scores, -1e4)), axis=-1)
    merged = F.npx.reshape(F.np.transpose(F.np.matmul(weights, values), (0, 2, 1, 3)), (-2, -2, -1))
    y = first(x + output(merged))
    return second(y + back(F.npx.leaky_relu(wide(y), act_type="gelu"))) * x


def _recurrent(F: Any, x: Any, h: Any, gru: Any, dense: Any) -> Any:
    y, state = gru(x, h)
    return dense(F.npx.sequence_mask(y, F.np.ones(2) * 3, use_sequence_length=True)) + F.np.mean(state[0])


def _activations(F: Any, x: Any, dense: Any) -> Any:
    y = dense(x)
    parts = [F.npx.leaky_relu(y, act_type=kind, slope=0.1) for kind in ("leaky", "elu", "gelu")]
    parts += [F.npx.activation(y, act_type=kind) for kind in ("softrelu", "softsign")]
    return F.np.stack([*parts, F.npx.relu(y), F.npx.sigmoid(y), F.npx.log_softmax(y, axis=0), F.npx.erf(y)])


def _several(F: Any, x: Any, dense: Any) -> Any:
    y = dense(x)
    return F.np.max(y, axis=0), F.np.cumsum(F.np.sort(y, axis=1), axis=1), F.np.prod(y, axis=-1), F.np.average(y)


def _linear_algebra(F: Any, x: Any, dense: Any) -> Any:
    y = dense(x)
    square = F.np.matmul(y, F.np.transpose(y)) + F.np.eye(3) * 2
    solved = F.np.linalg.solve(square, y) + F.np.matmul(F.np.linalg.inv(square), y)
    return F.np.linalg.cholesky(square) * F.np.linalg.norm(solved) + F.np.linalg.det(square)


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
    "conv_transpose": (
        lambda: sequence(
            nn.Conv2DTranspose(3, 3, strides=2, padding=1, output_padding=1, use_bias=False),
            nn.BatchNorm(),
            nn.LeakyReLU(0.2),
            nn.Conv2D(2, 1),
        ),
        ((2, 2, 3, 3),),
    ),
    "einsum": (lambda: Of(_einsum, _dense(2)), ((2, 3, 2), (2, 4, 2))),
    "picked": (lambda: Of(_picked, nn.Dense(5)), ((3, 4), (3,))),
    "embedding": (lambda: sequence(nn.Embedding(6, 4), nn.LayerNorm(), nn.Dense(2)), ((2, 3),)),
    "chosen": (lambda: Of(_chosen, nn.Dense(6)), ((2, 4),)),
    "bert": (
        lambda: Of(_bert, _dense(12), _dense(4), nn.LayerNorm(), nn.LayerNorm(), _dense(8), nn.Dense(4, flatten=False)),
        ((2, 3, 4), (2,)),
    ),
    "recurrent": (
        lambda: Of(_recurrent, rnn.GRU(2, bidirectional=True, input_size=3), _dense(2, in_units=4)),
        ((4, 2, 3), (2, 2, 2)),
    ),
    "activations": (lambda: Of(_activations, nn.Dense(3)), ((2, 4),)),
    "several_outputs": (lambda: Of(_several, nn.Dense(3)), ((2, 4),)),
    "linear_algebra": (lambda: Of(_linear_algebra, nn.Dense(3)), ((3, 4),)),
}


def exported(name: str) -> dict[str, np.ndarray]:
    """Export a network. Its values by their names in the file."""
    make, shapes = NETWORKS[name]
    with mx.name.NameManager():
        net = make()
    net.initialize(mx.init.Xavier())
    rng = np.random.RandomState(len(name))
    inputs = [
        mx.np.array(
            (rng.randint(0, 4, shape) if len(shape) == 1 or name == "embedding" else rng.uniform(-1, 1, shape)).astype(
                np.float32
            )
        )
        for shape in shapes
    ]
    net(*inputs)
    net.hybridize()
    outputs = net(*inputs)
    with mx.autograd.record():
        recorded = net(*inputs)
    several = isinstance(recorded, (list, tuple))
    mx.autograd.backward(recorded, [y.copy() for y in recorded] if several else recorded.copy())
    values = {f"{name}|x{i}": x.asnumpy() for i, x in enumerate(inputs)}
    values |= (
        {f"{name}|y{i}": y.asnumpy() for i, y in enumerate(outputs)} if several else {f"{name}|y": outputs.asnumpy()}
    )
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
