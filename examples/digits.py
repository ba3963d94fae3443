"""Train a small CNN on handwritten digits: Symbol → MXGradient → one jitted train step on XLA.

    python examples/digits.py [--epochs N]

The data are the 1,797 8×8 digits that ship inside scikit-learn. The script prints the graph, proves the gradient,
trains with momentum SGD until it classifies more than 97 % of the held-out digits, saves the model and shows that the
reloaded model predicts the same.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import datasets
import lowering
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import MissingExtraError

try:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
except ImportError as error:
    raise MissingExtraError(f"{error}. The examples need: pip install -e '.[examples]'") from error

BATCH = 64


def network() -> sym.Symbol:
    """data (n, 1, 8, 8) → probabilities of ten digits (n, 10)."""
    net = sym.Variable("data")
    for i, filters in enumerate((16, 32)):
        net = sym.Convolution(net, kernel=(3, 3), pad=(1, 1), num_filter=filters, no_bias=True, name=f"conv{i}")
        net = sym.BatchNorm(net, fix_gamma=False, name=f"bn{i}")
        net = sym.Activation(net, act_type="relu", name=f"relu{i}")
        net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{i}")
    net = sym.Dropout(sym.Flatten(net, name="flatten"), p=0.3, name="dropout")
    net = sym.FullyConnected(net, num_hidden=10, name="fc")
    return sym.SoftmaxOutput(net, normalization="batch", name="softmax")


def initial_values(net: sym.Symbol) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """(parameters, auxiliary states): He-normal weights, ones for scales and variances, zeros for the rest."""
    arg_shapes, _, aux_shapes = net.infer_shape(data=(BATCH, 1, 8, 8))
    key = jax.random.key(0)
    params: dict[str, jax.Array] = {}
    for i, (name, shape) in enumerate(zip(net.list_arguments(), arg_shapes, strict=True)):
        if name.endswith("_weight"):
            scale = (2 / np.prod(shape[1:])) ** 0.5
            params[name] = scale * jax.random.normal(jax.random.fold_in(key, i), shape)
        elif name.endswith(("_gamma", "_beta", "_bias")):
            params[name] = jnp.full(shape, float(name.endswith("_gamma")))
    aux = {
        name: jnp.full(shape, float(name.endswith("_var")))
        for name, shape in zip(net.list_auxiliary_states(), aux_shapes, strict=True)
    }
    return params, aux


def make_train_step(net: sym.Symbol, names: list[str]):
    """One jitted step of momentum SGD; the gradient is MXGradient's."""
    gradient = lowering.grad_fn(net, wrt=names)

    @jax.jit
    def step(params, velocity, aux, key, images, labels):
        args = params | {"data": images, "softmax_label": labels}
        (probabilities,), grads, aux = gradient(args, aux, key)
        velocity = {name: 0.9 * velocity[name] - 0.1 * grads[name] for name in params}
        params = {name: params[name] + velocity[name] for name in params}
        chosen = jnp.take_along_axis(probabilities, labels.astype(int)[:, None], axis=1)
        return params, velocity, aux, -jnp.mean(jnp.log(chosen + 1e-12))

    return step


def accuracy(predict, params, aux, images, labels) -> float:
    """Share of the images that are classified right."""
    args = params | {"data": images, "softmax_label": np.zeros(len(images), np.float32)}
    (probabilities,), _ = predict(args, aux)
    return float(np.mean(np.argmax(probabilities, axis=1) == labels))


def main(epochs: int) -> float:
    """Run the example; returns the test accuracy."""
    console = Console()
    (train_x, train_y), (test_x, test_y) = datasets.digits()
    net = network()
    console.rule("the graph")
    console.print(net.debug_str(), highlight=False, markup=False)

    params, aux = initial_values(net)
    console.rule("the gradient, proven in float64 on four digits")
    four = params | {"data": train_x[:4], "softmax_label": train_y[:4]}
    console.print(str(lowering.check_gradients(net, four, aux, wrt=list(params))), highlight=False, soft_wrap=True)

    console.rule("training")
    step = make_train_step(net, list(params))
    predict = lowering.compile(net)
    velocity = {name: jnp.zeros_like(value) for name, value in params.items()}
    rng, key = np.random.RandomState(1), jax.random.key(1)
    steps = len(train_x) // BATCH
    started = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("compiling", total=epochs * steps)
        loss = np.nan
        for epoch in range(epochs):
            order = rng.permutation(len(train_x))
            for i in range(steps):
                batch = order[i * BATCH : (i + 1) * BATCH]
                call_key = jax.random.fold_in(key, epoch * steps + i)
                params, velocity, aux, loss = step(params, velocity, aux, call_key, train_x[batch], train_y[batch])
                progress.update(task, advance=1)
            progress.update(task, description=f"epoch {epoch} ({epoch + 1} of {epochs})  loss {float(loss):.4f}")
    tested = accuracy(predict, params, aux, test_x, test_y)
    console.print(f"test accuracy {tested:.2%} after {epochs} epochs, {time.perf_counter() - started:.1f} s")

    with tempfile.TemporaryDirectory() as folder:
        net.save(Path(folder) / "digits-symbol.json")
        np.savez(
            Path(folder) / "digits.npz", allow_pickle=False, **{k: np.asarray(v) for k, v in (params | aux).items()}
        )
        loaded = sym.load(Path(folder) / "digits-symbol.json")
        with np.load(Path(folder) / "digits.npz") as stored:
            values = dict(stored)
    loaded_aux = {name: values.pop(name) for name in loaded.list_auxiliary_states()}
    args = {"data": test_x, "softmax_label": test_y}
    (before,), _ = predict(params | args, aux)
    (after,), _ = lowering.compile(loaded)(values | args, loaded_aux)
    assert np.array_equal(before, after), "the reloaded model predicts differently"
    console.print(f"saved, reloaded: {len(test_x)} predictions equal bit for bit")
    return tested


if __name__ == "__main__":
    lowering.keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    score = main(parser.parse_args().epochs)
    if score <= 0.97:
        raise SystemExit(f"test accuracy {score:.2%}, expected more than 97 %")
