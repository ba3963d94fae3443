"""Small networks, in float64, and a batch for each: what is trained on a mesh and on one device."""

from collections.abc import Callable

import numpy as np
from jax.sharding import PartitionSpec

from lowering.sharding.placement import Rules
from symjax_nnvm import symbol as sym

Arrays = dict[str, np.ndarray]

ROWS = 8


def mlp(dtype: str = "float64") -> sym.Symbol:
    """data (n, 12) → probabilities of four classes, through BatchNorm and Dropout."""
    net = sym.FullyConnected(sym.Variable("data", dtype=dtype), num_hidden=16, no_bias=True, name="fc1")
    net = sym.Activation(sym.BatchNorm(net, fix_gamma=False, name="bn"), act_type="tanh")
    net = sym.FullyConnected(sym.Dropout(net, p=0.3, name="dropout"), num_hidden=4, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def resnet() -> sym.Symbol:
    """data (n, 3, 6, 6) → probabilities of four classes: a block with its way around."""
    first = sym.Convolution(_data(), kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True, name="conv1")
    net = sym.Activation(sym.BatchNorm(first, fix_gamma=False, name="bn1"), act_type="relu")
    net = sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True, name="conv2")
    net = sym.Activation(sym.BatchNorm(net, fix_gamma=False, name="bn2") + first, act_type="relu")
    net = sym.Pooling(net, global_pool=True, pool_type="avg", kernel=(1, 1))
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=4, name="fc2"), name="softmax")


def lstm() -> sym.Symbol:
    """data (n, 5, 6) → probabilities of four classes, from the last of five steps."""
    net = sym.RNN(
        sym.transpose(_data(), axes=(1, 0, 2)),
        sym.Variable("parameters", init=sym_init()),
        sym.zeros((1, ROWS, 8), dtype="float64"),
        sym.zeros((1, ROWS, 8), dtype="float64"),
        state_size=8,
        num_layers=1,
        mode="lstm",
        name="rnn",
    )
    net = sym.reshape(sym.slice_axis(net, axis=0, begin=4, end=5), shape=(-1, 8))
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=4, name="fc2"), name="softmax")


def sym_init() -> str:
    """Of parameters whose name says nothing."""
    return '["uniform", {"scale": 0.3}]'


def transformer() -> sym.Symbol:
    """data (n, 5, 8) → probabilities of four classes: attention over five positions, and a layer after it."""
    data = _data()
    query, key, value = (
        sym.FullyConnected(data, num_hidden=8, flatten=False, no_bias=True, name=name) for name in ("q", "k", "v")
    )
    scores = sym.softmax(sym.batch_dot(query, key, transpose_b=True) / 8**0.5)
    net = sym.LayerNorm(data + sym.Dropout(sym.batch_dot(scores, value), p=0.1, name="dropout"), name="norm")
    net = net + sym.FullyConnected(
        sym.Activation(sym.FullyConnected(net, num_hidden=16, flatten=False, name="fc1"), act_type="relu"),
        num_hidden=8,
        flatten=False,
        name="fc3",
    )
    return sym.SoftmaxOutput(sym.FullyConnected(sym.mean(net, axis=1), num_hidden=4, name="fc2"), name="softmax")


def _data() -> sym.Symbol:
    return sym.Variable("data", dtype="float64")


NETWORKS: dict[str, tuple[Callable[[], sym.Symbol], tuple[int, ...], Rules]] = {
    "mlp": (mlp, (12,), [("fc1_weight", PartitionSpec("model")), ("fc2_weight", PartitionSpec(None, "model"))]),
    "resnet": (resnet, (3, 6, 6), [("conv?_weight", PartitionSpec("model"))]),
    "lstm": (lstm, (5, 6), [("parameters", PartitionSpec("model"))]),
    "transformer": (
        transformer,
        (5, 8),
        [("[qkv]_weight", PartitionSpec("model")), ("fc1_weight", PartitionSpec("model"))],
    ),
}
"""By name: the network, the shape of a sample, and rules that split it over the axis "model"."""


def batch(shape: tuple[int, ...], rows: int = ROWS, seed: int = 0) -> Arrays:
    """Random data, with labels."""
    rng = np.random.RandomState(seed)
    return {"data": rng.normal(size=(rows, *shape)), "softmax_label": rng.randint(4, size=rows).astype(np.float64)}
