"""The cases of `gradients.py`: NumPy only, so that MXNet's environment can read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class GradientCase:
    """An operator at a realistic size. build: (module of symbol functions, variables) → symbol; inputs: name → shape;
    integers: inputs that hold whole numbers below a bound; wrt: the inputs whose gradients are computed."""

    name: str
    graph: Callable[..., Any]
    inputs: dict[str, tuple[int, ...]]
    integers: dict[str, int] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    @property
    def wrt(self) -> list[str]:
        """Every float input that is not a state."""
        return [name for name in self.inputs if name not in self.integers and name not in self.without]

    def build(self, sym: Any) -> Any:
        """The symbol, in MXNet's module or in ours."""
        return self.graph(sym, **{name: sym.Variable(name) for name in self.inputs})

    def values(self) -> dict[str, np.ndarray]:
        """Arrays of the inputs."""
        rng = np.random.RandomState(0)
        found = {}
        for name, shape in self.inputs.items():
            if name in self.integers:
                found[name] = rng.randint(0, self.integers[name], shape).astype(np.float32)
            else:
                found[name] = rng.uniform(0.1, 1, shape).astype(np.float32)
        return found

    def head(self, shape: tuple[int, ...]) -> np.ndarray:
        """A head gradient."""
        return np.random.RandomState(1).uniform(-1, 1, shape).astype(np.float32)


def _conv(name: str, n: int, c: int, size: int, filters: int, kernel: int, **params: Any) -> GradientCase:
    groups = params.get("num_group", 1)
    return GradientCase(
        name,
        lambda sym, data, weight: sym.Convolution(
            data, weight, kernel=(kernel, kernel), num_filter=filters, no_bias=True, pad=(kernel // 2,) * 2, **params
        ),
        {"data": (n, c, size, size), "weight": (filters, c // groups, kernel, kernel)},
    )


def _pool(name: str, pool_type: str, **params: Any) -> GradientCase:
    return GradientCase(
        name,
        lambda sym, data: sym.Pooling(data, pool_type=pool_type, **params),
        {"data": (16, 64, 112, 112)},
    )


def _rnn(mode: str, gates: int) -> GradientCase:
    steps, batch, size, hidden = 35, 32, 200, 200
    inputs = {
        "data": (steps, batch, size),
        "parameters": (gates * hidden * (size + hidden + 2),),
        "state": (1, batch, hidden),
    }
    if mode == "lstm":
        inputs["state_cell"] = (1, batch, hidden)
    return GradientCase(
        mode,
        lambda sym, **given: sym.RNN(**given, mode=mode, state_size=hidden, num_layers=1),
        inputs,
    )


def _attention(sym: Any, query: Any, key: Any, value: Any) -> Any:
    scores = sym.softmax(sym.batch_dot(query, key, transpose_b=True) * 0.125, axis=-1)
    return sym.batch_dot(scores, value)


CASES = [
    _conv("conv dense 3x3", 8, 64, 56, 64, 3),
    _conv("conv strided 3x3", 8, 64, 56, 128, 3, stride=(2, 2)),
    _conv("conv 1x1", 8, 64, 56, 256, 1),
    _conv("conv grouped 32", 8, 128, 28, 128, 3, num_group=32),
    _conv("conv depth-wise 3x3", 16, 32, 112, 32, 3, num_group=32),
    _conv("conv depth-wise strided", 16, 32, 112, 32, 3, num_group=32, stride=(2, 2)),
    _pool("pool max 3x3 stride 2", "max", kernel=(3, 3), stride=(2, 2)),
    _pool("pool max 2x2", "max", kernel=(2, 2), stride=(2, 2)),
    _pool("pool avg 3x3 stride 2", "avg", kernel=(3, 3), stride=(2, 2)),
    GradientCase(
        "BatchNorm",
        lambda sym, **given: sym.BatchNorm(**given, fix_gamma=False),
        {"data": (32, 64, 56, 56), "gamma": (64,), "beta": (64,), "moving_mean": (64,), "moving_var": (64,)},
        without=("moving_mean", "moving_var"),
    ),
    GradientCase(
        "LayerNorm",
        lambda sym, **given: sym.LayerNorm(**given),
        {"data": (32, 128, 512), "gamma": (512,), "beta": (512,)},
    ),
    GradientCase("softmax", lambda sym, data: sym.softmax(data, axis=-1), {"data": (4096, 1000)}),
    GradientCase("log_softmax", lambda sym, data: sym.log_softmax(data, axis=-1), {"data": (4096, 1000)}),
    _rnn("rnn_tanh", 1),
    _rnn("lstm", 4),
    _rnn("gru", 3),
    GradientCase(
        "Embedding",
        lambda sym, data, weight: sym.Embedding(data, weight, input_dim=30000, output_dim=256),
        {"data": (64, 128), "weight": (30000, 256)},
        integers={"data": 30000},
    ),
    GradientCase("attention (batch_dot)", _attention, dict.fromkeys(("query", "key", "value"), (96, 128, 64))),
    GradientCase(
        "FullyConnected",
        lambda sym, data, weight, bias: sym.FullyConnected(data, weight, bias, num_hidden=1024),
        {"data": (128, 1024), "weight": (1024, 1024), "bias": (1024,)},
    ),
]
