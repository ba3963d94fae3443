"""Gluon blocks, whose parameters have structural names in one file and a symbol's names in the other."""

from collections.abc import Callable
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
from mxnet.gluon import nn, rnn  # type: ignore[import-not-found]


class Residual(nn.HybridBlock):
    """A block whose shortcut is registered last and runs first."""

    def __init__(self, channels: int, **options: Any):
        super().__init__(**options)
        with self.name_scope():
            self.body = nn.HybridSequential(prefix="")
            self.body.add(nn.Conv2D(channels, 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
            self.body.add(nn.Conv2D(channels, 3, 1, 1, use_bias=False), nn.BatchNorm())
            self.shortcut = nn.HybridSequential(prefix="")
            self.shortcut.add(nn.Conv2D(channels, 1, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """The two paths, added."""
        return F.relu(self.shortcut(x) + self.body(x))


class Twins(nn.HybridBlock):
    """Two layers of one shape, registered in one order and run in the other."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        with self.name_scope():
            self.left = nn.Dense(3)
            self.right = nn.Dense(3)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Right before left."""
        return F.concat(self.right(x), self.left(x))


def gluon_resnet() -> Any:
    """Convolutions and residual blocks."""
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, 2, 1), nn.BatchNorm(), nn.Activation("relu"), Residual(4), Residual(6))
        net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(3))
    return net


def gluon_lstm() -> Any:
    """Words and a recurrent layer."""
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Embedding(7, 3), rnn.LSTM(4, num_layers=2, layout="NTC", bidirectional=True), nn.Dense(2))
    return net


def gluon_dense() -> Any:
    """One layer: its parameters' structural names are bare."""
    return nn.Dense(3, prefix="dense_")


def gluon_twins() -> Any:
    """What no order tells apart."""
    return Twins(prefix="twins_")


BLOCKS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "gluon_resnet": (gluon_resnet, lambda: mx.nd.random.uniform(-1, 1, (2, 3, 8, 8))),
    "gluon_lstm": (gluon_lstm, lambda: mx.nd.array([[1, 2, 3], [4, 5, 6]])),
    "gluon_dense": (gluon_dense, lambda: mx.nd.random.uniform(-1, 1, (2, 4))),
    "gluon_twins": (gluon_twins, lambda: mx.nd.random.uniform(-1, 1, (2, 4))),
}
"""Name → (block, input)."""
