"""Does the lowering add anything? Ours against the same networks hand-written in jax.numpy.

    python benchmarks/vs_handwritten.py [--rounds 41]

For an MLP and LeNet, forward and gradient: instructions in XLA's optimised HLO (all computations, parameters and
constants left out), and the ratio of step times, ours over hand-written: the median of the rounds' ratios. Hand-written
gradients are `jax.vjp`'s, started from softmax - one-hot as SoftmaxOutput defines it; ours are MXGradient's. LeNet is
hand-written twice: with the pooling one writes for speed, which is what ours lowers to, and with the pooling one writes
first.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

sys.path.insert(0, str(Path(__file__).parents[1]))

import lowering
from benchmarks.contenders import in_process, medians, options_of, print_table, ratio, take_turns
from symjax_nnvm import symbol as sym

Arrays = dict[str, jax.Array]
Function = Callable[[Arrays], Any]


def mlp_symbol() -> sym.Symbol:
    """data (n, 784) → probabilities of ten classes."""
    x = sym.Variable("data")
    for i, width in enumerate((512, 256)):
        x = sym.relu(sym.FullyConnected(x, num_hidden=width, name=f"fc{i}"))
    logits = sym.FullyConnected(x, num_hidden=10, name="fc2")
    return sym.SoftmaxOutput(logits, normalization="batch", name="softmax")


def lenet_symbol() -> sym.Symbol:
    """data (n, 1, 28, 28) → probabilities of ten classes."""
    x = sym.Variable("data")
    for i, filters in enumerate((20, 50)):
        x = sym.tanh(sym.Convolution(x, kernel=(5, 5), num_filter=filters, name=f"conv{i}"))
        x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{i}")
    x = sym.tanh(sym.FullyConnected(x, num_hidden=500, name="fc0"))
    logits = sym.FullyConnected(x, num_hidden=10, name="fc1")
    return sym.SoftmaxOutput(logits, normalization="batch", name="softmax")


def mlp(a: Arrays) -> jax.Array:
    """The MLP's logits by hand."""
    x = a["data"]
    for i in range(2):
        x = jax.nn.relu(x @ a[f"fc{i}_weight"].T + a[f"fc{i}_bias"])
    return x @ a["fc2_weight"].T + a["fc2_bias"]


def plain_pool(x: jax.Array) -> jax.Array:
    """2×2 maxima of (n, c, h, w), windows side by side, as one writes them first; JAX splits gradients among ties."""
    return _blocks(x).max(axis=(3, 5))


@jax.custom_vjp
def fast_pool(x: jax.Array) -> jax.Array:
    """The same as one writes it for speed: the maximum of four strided slices, and a gradient for the first maximum."""
    parts = [x[:, :, i::2, j::2] for i in range(2) for j in range(2)]
    return jnp.maximum(jnp.maximum(jnp.maximum(parts[0], parts[1]), parts[2]), parts[3])


def _fast_pool_forward(x: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    out = fast_pool(x)
    return out, (x, out)


def _fast_pool_backward(saved: tuple[jax.Array, jax.Array], grad: jax.Array) -> tuple[jax.Array]:
    x, out = saved
    place = np.arange(4, dtype=np.int32).reshape(2, 1, 2)
    ties = _blocks(x) == out[:, :, :, None, :, None]
    first = jnp.min(jnp.where(ties, place, np.int32(4)), axis=(3, 5), keepdims=True)
    return (jnp.where(first == place, grad[:, :, :, None, :, None], 0).reshape(x.shape),)


fast_pool.defvjp(_fast_pool_forward, _fast_pool_backward)


def _blocks(x: jax.Array) -> jax.Array:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2)


def lenet(pool: Callable[[jax.Array], jax.Array]) -> Function:
    """LeNet's logits by hand, with one of the poolings."""

    def logits(a: Arrays) -> jax.Array:
        x = a["data"]
        for i in range(2):
            x = lax.conv_general_dilated(
                x, a[f"conv{i}_weight"], (1, 1), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW")
            )
            x = pool(jnp.tanh(x + a[f"conv{i}_bias"][:, None, None]))
        x = jnp.tanh(x.reshape(x.shape[0], -1) @ a["fc0_weight"].T + a["fc0_bias"])
        return x @ a["fc1_weight"].T + a["fc1_bias"]

    return logits


def hand_gradient(logits_of: Function, weights: list[str]) -> Function:
    """Probabilities and gradients of the mean cross-entropy: softmax minus one-hot, pulled back by JAX."""

    def gradient(a: Arrays) -> tuple[list[jax.Array], Arrays]:
        logits, pull = jax.vjp(lambda w: logits_of({**a, **w}), {name: a[name] for name in weights})
        probabilities = jax.nn.softmax(logits)
        difference = probabilities - jax.nn.one_hot(a["softmax_label"].astype(int), 10)
        return [probabilities], pull(difference / logits.shape[0])[0]

    return gradient


BATCH = 128
NETWORKS: dict[str, tuple[Callable[[], sym.Symbol], Function, tuple[int, ...]]] = {
    "MLP 784-512-256-10": (mlp_symbol, mlp, (BATCH, 784)),
    "LeNet 28×28": (lenet_symbol, lenet(fast_pool), (BATCH, 1, 28, 28)),
    "LeNet, plain pooling": (lenet_symbol, lenet(plain_pool), (BATCH, 1, 28, 28)),
}


def arguments(net: sym.Symbol, data: tuple[int, ...]) -> Arrays:
    """Random weights and data, labels in 0 … 9."""
    shapes = net.infer_shape(data=data)[0]
    rng = np.random.RandomState(0)
    args: Arrays = {}
    for name, shape in zip(net.list_arguments(), shapes, strict=True):
        scale = 1 / np.sqrt(np.prod(shape[1:])) if name.endswith("weight") else 1.0
        args[name] = jnp.asarray(rng.randn(*shape) * scale, jnp.float32)
    args["softmax_label"] = jnp.asarray(rng.randint(0, 10, data[0]), jnp.float32)
    return args


def instructions(compiled: Any) -> int:
    """Instructions of the optimised module, in all its computations."""
    found = re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][\w\-]*)\(", compiled.as_text(), re.MULTILINE)
    return sum(opcode not in ("parameter", "constant", "get-tuple-element", "tuple") for opcode in found)


def rows(rounds: int) -> Iterator[list[str]]:
    """A line for the forward function and one for the gradient of each network."""
    for name, (make, by_hand, data) in NETWORKS.items():
        net = make()
        args = arguments(net, data)
        weights = [n for n in args if n not in ("data", "softmax_label")]
        forward, gradient = lowering.to_jax(net, is_train=True), lowering.grad_fn(net, wrt=weights)

        pairs: dict[str, tuple[Function, Function]] = {
            "forward": (lambda a, f=forward: f(a)[0], lambda a, f=by_hand: [jax.nn.softmax(f(a))]),
            "gradient": (lambda a, f=gradient: f(a)[:2], hand_gradient(by_hand, weights)),
        }
        for part, functions in pairs.items():
            compiled = [jax.jit(function).lower(args).compile() for function in functions]
            for a, b in zip(*(jax.tree.leaves(c(args)) for c in compiled), strict=True):
                np.testing.assert_allclose(a.reshape(b.shape), b, rtol=1e-4, atol=1e-6)
            calls = zip(("ours", "by hand"), compiled, strict=True)
            ways = {way: in_process(lambda c=c, a=args: jax.block_until_ready(c(a))) for way, c in calls}
            times = take_turns(ways, rounds)
            ms = [f"{value:.3f}" for value in medians(times).values()]
            yield [name, part, *(str(instructions(c)) for c in compiled), *ms, f"{ratio(times, 'ours', 'by hand'):.3f}"]


if __name__ == "__main__":
    lowering.keep_memory()
    columns = ["network", "part", "HLO ours", "by hand", "ms ours", "by hand", "ratio"]
    print_table(columns, rows(options_of(__doc__, 41).parse_args().rounds), left=2)
