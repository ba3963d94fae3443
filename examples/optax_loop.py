"""A symbol inside a plain JAX training loop: `lowering.differentiable`, `jax.value_and_grad` and Optax.

    python examples/optax_loop.py [--steps N]

The network is a symbol, the loss is written in jax.numpy. `jax.grad` of the loss runs MXGradient for everything inside
the symbol: the two agree where they meet. AdamW with a cosine schedule, gradients clipped, on the 8×8 digits.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np

import datasets
import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import MissingExtraError

try:
    import optax
except ImportError as error:
    raise MissingExtraError(f"{error}. The examples need: pip install -e '.[examples]'") from error

BATCH = 128


def network() -> sym.Symbol:
    """data (n, 1, 8, 8) → scores of ten digits (n, 10)."""
    net = sym.Convolution(sym.Variable("data"), kernel=(3, 3), num_filter=16, name="conv")
    net = net.relu().flatten()
    net = sym.LayerNorm(sym.FullyConnected(net, num_hidden=64, name="hidden"), name="norm").relu()
    return sym.FullyConnected(net, num_hidden=10, name="scores")


def initial_values(net: sym.Symbol, key: jax.Array) -> dict[str, jax.Array]:
    """He-normal weights, ones for scales, zeros for the rest."""
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=(BATCH, 1, 8, 8))[0], strict=True))
    del shapes["data"]
    params = {}
    for name, shape in shapes.items():
        key, drawn = jax.random.split(key)
        if name.endswith("_weight"):
            params[name] = jax.random.normal(drawn, shape) * (2 / np.prod(shape[1:])) ** 0.5
        else:
            params[name] = jnp.full(shape, float(name.endswith("_gamma")))
    return params


def main(steps: int) -> float:
    """Train; returns the test accuracy."""
    (images, labels), (test_images, test_labels) = datasets.digits()
    net = network()
    forward = lowering.differentiable(net)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(3e-3, steps)))

    def loss(params: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
        (scores,), _ = forward(params | {"data": images})
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels.astype(int)).mean()

    @jax.jit
    def step(params, state, images, labels):
        value, grads = jax.value_and_grad(loss)(params, images, labels)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    params = initial_values(net, jax.random.key(0))
    state = optimizer.init(params)
    rng = np.random.RandomState(0)
    for i in range(steps):
        batch = rng.choice(len(images), BATCH, replace=False)
        params, state, value = step(params, state, images[batch], labels[batch])
        if (i + 1) % 50 == 0 or i + 1 == steps:
            print(f"step {i + 1:4d}  loss {float(value):.4f}")
    (scores,), _ = lowering.compile(net)(params | {"data": test_images})
    accuracy = float(np.mean(np.argmax(scores, axis=1) == test_labels))
    print(f"test accuracy {accuracy:.2%}")
    return accuracy


if __name__ == "__main__":
    lowering.keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    score = main(parser.parse_args().steps)
    if score <= 0.97:
        raise SystemExit(f"test accuracy {score:.2%}, expected more than 97 %")
