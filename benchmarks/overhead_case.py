"""The network of `overhead.py`, for both sides: 160 parameters, each small, so that calls cost more than numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

LAYERS, WIDTH, BATCH = 80, 8, 4


def build(sym: Any) -> Any:
    """80 dense layers, each a weight and a bias, under a softmax. sym: the module `symbol` of either library."""
    x = sym.Variable("data")
    for i in range(LAYERS):
        x = sym.Activation(sym.FullyConnected(x, num_hidden=WIDTH, name=f"fc{i}"), act_type="tanh", name=f"act{i}")
    return sym.SoftmaxOutput(x, name="softmax")


def values(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Numbers for every argument."""
    random = np.random.RandomState(0)
    arrays = {name: random.uniform(-0.5, 0.5, shape).astype("float32") for name, shape in shapes.items()}
    arrays["softmax_label"] = np.arange(BATCH, dtype="float32") % WIDTH
    return arrays
