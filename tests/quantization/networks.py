"""Small networks to quantise, with parameters and data, for the tests and for what MXNet said of them.

`symbols` is `mx.sym` or `symjax_nnvm.symbol`.
"""

from typing import Any

import numpy as np


def residual(symbols: Any) -> Any:
    """Return convolutions with BatchNorm, a sum, pooling, Concat and dense layers."""
    data = symbols.Variable("data")
    net = symbols.Convolution(data, num_filter=8, kernel=(3, 3), pad=(1, 1), no_bias=True, name="conv0")
    net = symbols.Activation(symbols.BatchNorm(net, fix_gamma=False, name="bn0"), act_type="relu", name="relu0")
    pool = symbols.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool0")
    net = symbols.Convolution(pool, num_filter=8, kernel=(3, 3), pad=(1, 1), name="conv1")
    net = symbols.elemwise_add(symbols.BatchNorm(net, fix_gamma=False, name="bn1"), pool, name="add0")
    net = symbols.Activation(net, act_type="relu", name="relu1")
    left = symbols.Convolution(net, num_filter=4, kernel=(1, 1), name="conv2")
    right = symbols.Convolution(net, num_filter=4, kernel=(1, 1), no_bias=True, name="conv3")
    net = symbols.Concat(left, right, dim=1, name="cat")
    net = symbols.Pooling(net, global_pool=True, pool_type="avg", kernel=(1, 1), name="gap")
    net = symbols.FullyConnected(symbols.Flatten(net, name="flat"), num_hidden=10, name="fc1")
    net = symbols.Activation(net, act_type="relu", name="relu2")
    net = symbols.FullyConnected(net, num_hidden=5, no_bias=True, name="fc2")
    return symbols.SoftmaxOutput(net, name="softmax")


def mlp(symbols: Any) -> Any:
    """Return dense layers whose activations stay float, a product and a sum."""
    net = symbols.FullyConnected(symbols.Variable("data"), num_hidden=16, name="fc1")
    net = symbols.Activation(net, act_type="tanh", name="tanh")
    left = symbols.FullyConnected(net, num_hidden=16, name="fc2")
    right = symbols.FullyConnected(net, num_hidden=16, name="fc3")
    product = symbols.elemwise_mul(left, right, name="mul")
    net = symbols.FullyConnected(symbols.elemwise_add(product, net, name="add"), num_hidden=5, name="fc4")
    return symbols.SoftmaxOutput(net, name="softmax")


def text(symbols: Any) -> Any:
    """Return an embedding and dense layers with outputs of several kinds."""
    net = symbols.Embedding(symbols.Variable("data"), input_dim=20, output_dim=8, name="emb")
    net = symbols.FullyConnected(symbols.Flatten(net, name="flat"), num_hidden=6, name="fc1")
    net = symbols.Activation(net, act_type="relu", name="relu")
    part = symbols.slice_axis(net, axis=1, begin=0, end=3, name="part")
    heads = [symbols.FullyConnected(net, num_hidden=4, name="fc2"), part]
    return symbols.Group([*heads, symbols.FullyConnected(part, num_hidden=4, name="fc3")])


def attention(symbols: Any) -> Any:
    """Return self-attention between dense layers."""
    net = symbols.FullyConnected(symbols.Variable("data"), num_hidden=24, flatten=False, name="fc1")
    heads = symbols.transpose(net, axes=(1, 0, 2), name="turned")
    scores = symbols.contrib.interleaved_matmul_selfatt_qk(heads, heads=2, name="qk")
    weights = symbols.softmax(scores, name="softmax")
    net = symbols.contrib.interleaved_matmul_selfatt_valatt(heads, weights, heads=2, name="valatt")
    net = symbols.FullyConnected(net, num_hidden=6, flatten=False, name="fc2")
    net = symbols.LeakyReLU(net, act_type="gelu", name="gelu")
    return symbols.FullyConnected(net, num_hidden=4, flatten=False, name="fc3")


NETWORKS = {
    "residual": (residual, (4, 3, 8, 8)),
    "mlp": (mlp, (4, 12)),
    "text": (text, (4, 6)),
    "attention": (attention, (4, 5, 8)),
}
"""Name → (what makes it, the shape of its data)."""


def parameters(net: Any, shape: tuple[int, ...]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return arguments and states."""
    random = np.random.RandomState(0)
    shapes, _, states = net.infer_shape(data=shape)
    args = {
        name: (0.3 * random.standard_normal(size)).astype(np.float32)
        for name, size in zip(net.list_arguments(), shapes)  # noqa: B905  # MXNet has Python 3.9
        if name not in ("data", "softmax_label")
    }
    aux = {
        name: np.abs(random.standard_normal(size)).astype(np.float32) * (0.2 if "mean" in name else 1) + 0.1
        for name, size in zip(net.list_auxiliary_states(), states)  # noqa: B905
    }
    return args, {name: array.astype(np.float32) for name, array in aux.items()}


def batches(name: str, count: int = 3) -> list[np.ndarray]:
    """Return batches of data."""
    random, shape = np.random.RandomState(7), NETWORKS[name][1]
    draw = (lambda: random.randint(0, 20, shape)) if name == "text" else (lambda: random.standard_normal(shape))
    return [draw().astype(np.float32) for _ in range(count)]


def values(kind: str) -> list[np.ndarray]:
    """Return arrays whose histogram MXNet was asked about."""
    random = np.random.RandomState(9 if kind == "alike" else 0)
    draws = {
        "normal": lambda: random.standard_normal(3000),
        "relu": lambda: np.maximum(random.standard_normal(3000), 0),
        "few": lambda: random.randint(-3, 4, 3000) * 0.37,
        "growing": lambda: random.standard_normal(3000) * random.uniform(0.9, 1.1),
        "outlier": lambda: np.where(random.uniform(size=3000) < 0.001, 50, random.standard_normal(3000)),
        "alike": lambda: random.standard_normal(64),  # the last bits of logarithms choose between two thresholds
    }
    return [draws[kind]().astype(np.float32) for _ in range(2)]


VALUES = ("normal", "relu", "few", "growing", "outlier", "alike")
