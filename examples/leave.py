"""A network of MXNet's leaves as plain JAX: LeNet is printed, gets another head, and is trained without this library.

    python examples/leave.py [--steps N]

`to_source` writes the module; what follows imports JAX, Optax and that module alone. The printed features stay as they
are, the head is new: two classes, even and odd digits, of the 8×8 digits.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import datasets
import lowering
import symjax_nnvm as nn
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import MissingExtraError

try:
    import optax
except ImportError as error:
    raise MissingExtraError(f"{error}. The examples need: pip install -e '.[examples]'") from error

BATCH = 128


def lenet() -> nn.Model:
    """data (n, 1, 8, 8) → features (n, 32), with first values in place of a checkpoint's."""
    net = sym.Variable("data")
    for i, filters in enumerate((8, 16), start=1):
        net = sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=filters, name=f"conv{i}")
        net = sym.Activation(net, act_type="relu", name=f"relu{i}")
        net = sym.Pooling(net, pool_type="max", kernel=(2, 2), stride=(2, 2), name=f"pool{i}")
    net = sym.FullyConnected(sym.Flatten(net, name="flat"), num_hidden=32, name="features")
    args, aux = lowering.init_params(net, {"data": (1, 1, 8, 8)}, 0)
    return nn.Model(net, args, aux)


def printed(folder: Path) -> Any:
    """Write LeNet as source code; return the module."""
    path, _ = lenet().to_jax_source(folder, {"data": ("batch", 1, 8, 8)})
    print(path.read_text())
    spec = importlib.util.spec_from_file_location("lenet", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train(module: Any, params: dict[str, jax.Array], steps: int) -> float:
    """Train the printed network with another head, by JAX and Optax alone; return the test accuracy."""
    (images, labels), (test_images, test_labels) = datasets.digits()
    params = params | {"head": 0.1 * jax.random.normal(jax.random.key(1), (32, 2))}
    optimizer = optax.adam(1e-2)
    state = optimizer.init(params)

    def scores(params: dict[str, jax.Array], images: jax.Array) -> jax.Array:
        return jax.nn.relu(module.forward(params, images)) @ params["head"]

    def loss(params: dict[str, jax.Array], images: jax.Array, odd: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(scores(params, images), odd).mean()

    @jax.jit
    def step(params: Any, state: Any, images: jax.Array, odd: jax.Array) -> tuple[Any, Any]:
        updates, state = optimizer.update(jax.grad(loss)(params, images, odd), state)
        return optax.apply_updates(params, updates), state

    for i in range(steps):
        rows = jnp.arange(i * BATCH, (i + 1) * BATCH) % len(images)
        params, state = step(params, state, images[rows], labels[rows].astype("int32") % 2)
    chosen = jnp.argmax(scores(params, jnp.asarray(test_images)), 1)
    return float((chosen == test_labels.astype("int32") % 2).mean())


def main(steps: int) -> float:
    """Print, change, train; return the test accuracy."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "lenet"
        module = printed(place)
        accuracy = train(module, module.load(place / "weights.npz"), steps)
    print(f"even or odd: test accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    main(parser.parse_args().steps)
