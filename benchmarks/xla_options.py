"""What XLA's compile options gain: the table of `lowering/xla/compile_options.py`, measured on this machine.

    python benchmarks/xla_options.py [--only NETWORK ...] [--rounds 9]

Each network, forward and with gradients, is compiled with JAX's defaults, without the YNNPACK library, and with our
options; all take turns, and medians in milliseconds are printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import numpy as np

import lowering
from benchmarks.contenders import compare
from lowering.xla.compile_options import options_for
from symjax_nnvm import symbol as sym

Network = tuple[sym.Symbol, dict[str, tuple[int, ...]]]


def resnet18(batch: int = 4) -> Network:
    """18 layers of convolutions with batch normalisation, on images of 224."""

    def convolved(x: sym.Symbol, filters: int, size: int, stride: int, name: str) -> sym.Symbol:
        window: dict[str, Any] = {"kernel": (size, size), "stride": (stride, stride), "pad": (size // 2, size // 2)}
        x = sym.Convolution(x, num_filter=filters, no_bias=True, name=name, **window)
        return sym.BatchNorm(x, fix_gamma=False, name=f"{name}_bn")

    x = sym.relu(convolved(sym.Variable("data"), 64, 7, 2, "first"))
    x = sym.Pooling(x, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")
    for stage, filters in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            name = f"stage{stage}_block{block}"
            y = sym.relu(convolved(x, filters, 3, stride, f"{name}_a"))
            y = convolved(y, filters, 3, 1, f"{name}_b")
            x = sym.relu(y + (convolved(x, filters, 1, stride, f"{name}_c") if stride == 2 else x))
    x = sym.Pooling(x, global_pool=True, kernel=(7, 7), pool_type="avg")
    return _head(sym.Flatten(x)), {"data": (batch, 3, 224, 224)}


def dense() -> Network:
    """Five dense layers."""
    x = sym.Variable("data")
    for i in range(4):
        x = sym.relu(sym.FullyConnected(x, num_hidden=1024, name=f"fc{i}"))
    return _head(x), {"data": (128, 1024)}


def lstm() -> Network:
    """Two LSTM layers over 64 steps."""
    size = 512
    weight = sym.Variable("rnn_weight", shape=(2 * 4 * size * (2 * size + 2),))
    states = [sym.zeros((2, 32, size)) for _ in range(2)]
    x = sym.RNN(sym.Variable("data"), weight, *states, state_size=size, num_layers=2, mode="lstm", name="rnn")
    return _head(sym.Reshape(x, shape=(-1, size))), {"data": (64, 32, size)}


def _head(x: sym.Symbol) -> sym.Symbol:
    return sym.SoftmaxOutput(sym.FullyConnected(x, num_hidden=1000, name="classes"), name="softmax")


NETWORKS: dict[str, Callable[[], Network]] = {"resnet18": resnet18, "dense": dense, "lstm": lstm}


def measure(name: str, part: str) -> dict[str, Callable[[], Any]]:
    """The network's forward function or its gradients, compiled with each of the options."""
    net, shapes = NETWORKS[name]()
    args, aux = lowering.init_params(net, shapes, 0, lowering.initializer.Uniform(0.05))
    known = dict(zip(net.list_arguments(), net.infer_shape(**shapes)[0], strict=True))
    parameters = list(args)
    rng = np.random.default_rng(0)
    inputs = {"data": rng.random(shapes["data"], np.float32), "softmax_label": np.zeros(known["softmax_label"], "f")}
    placed = jax.device_put(({**args, **inputs}, dict(aux)))
    options: dict[str, Mapping[str, str] | None] = {
        "ours": options_for("cpu"),
        "default": None,
        "no library": {"xla_cpu_experimental_ynn_fusion_type": ""},
    }
    function = lowering.to_jax(net) if part == "forward" else lowering.grad_fn(net, parameters)
    lowered = jax.jit(function).lower(*placed)
    compiled = {key: lowered.compile(compiler_options=dict(o) if o else None) for key, o in options.items()}
    return {key: lambda run=run: jax.block_until_ready(run(*placed)) for key, run in compiled.items()}


ROWS = {(name, part): partial(measure, name, part) for name in NETWORKS for part in ("forward", "gradients")}

if __name__ == "__main__":
    compare(__doc__, ("network", "part"), ("ours", "default", "no library"), ROWS, rounds=9)
