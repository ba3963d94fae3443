"""Small networks and data that the training tests share."""

from typing import Any, Literal

import numpy as np

from symjax_nnvm import symbol as sym


def classifier(normalization: Literal["null", "batch"] = "null") -> sym.Symbol:
    """data (n, 3) → probabilities of two classes (n, 2)."""
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=5, name="fc1")
    net = sym.Activation(net, act_type="tanh", name="act")
    net = sym.FullyConnected(net, num_hidden=2, name="fc2")
    return sym.SoftmaxOutput(net, normalization=normalization, name="softmax")


def convolutional() -> sym.Symbol:
    """data (n, 1, 6, 6) → probabilities of two classes, through a BatchNorm."""
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=4, no_bias=True, name="conv")
    net = sym.BatchNorm(net, fix_gamma=False, name="bn")
    net = sym.Activation(net, act_type="relu", name="relu")
    net = sym.FullyConnected(net, num_hidden=2, name="fc")
    return sym.SoftmaxOutput(net, name="softmax")


def points(count: int = 64, seed: int = 0) -> dict[str, np.ndarray]:
    """Points and their side of a plane: a batch for `classifier`."""
    data = np.random.RandomState(seed).normal(size=(count, 3)).astype(np.float32)
    return {"data": data, "softmax_label": (data @ [1.0, -2.0, 0.5] > 0).astype(np.float32)}


def images(count: int = 8) -> dict[str, np.ndarray]:
    """A batch for `convolutional`."""
    rng = np.random.RandomState(3)
    data = rng.normal(size=(count, 1, 6, 6)).astype(np.float32)
    return {"data": data, "softmax_label": rng.randint(2, size=count).astype(np.float32)}


def values(state_dict: dict[str, Any]) -> dict[str, np.ndarray]:
    """Arrays on the host, as copies that outlive the state."""
    return {name: np.array(value) for name, value in state_dict.items()}
