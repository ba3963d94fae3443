"""The hand-written JAX of `zoo.py`: plain, well-written functions of the same weights, as one writes them without us.

    python benchmarks/zoo_jax.py        # a contender; the command that `zoo.py` gives

Weights are (in, out) before the first call, and JAX compiles with its defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import symjax_nnvm
from benchmarks.contenders import Loaded, serve
from benchmarks.zoo_models import Row, files, inputs, row_of

Arrays = dict[str, jax.Array]


def transposed(weights: Mapping[str, Any]) -> Arrays:
    """FullyConnected's (out, in) weights as (in, out), once."""
    return {name: jnp.asarray(w.T if name.endswith("weight") else w) for name, w in weights.items()}


def dense(w: Arrays, name: str, h: jax.Array) -> jax.Array:
    return h @ w[f"{name}_weight"] + w[f"{name}_bias"]


def normalised(h: jax.Array, gamma: jax.Array, beta: jax.Array) -> jax.Array:
    """LayerNorm over the last axis."""
    mean = h.mean(-1, keepdims=True)
    variance = jnp.square(h - mean).mean(-1, keepdims=True)
    return (h - mean) * lax.rsqrt(variance + 1e-5) * gamma + beta


def layer_norm(w: Arrays, name: str, h: jax.Array, normal: Callable[..., jax.Array] = normalised) -> jax.Array:
    return normal(h, w[f"{name}_gamma"], w[f"{name}_beta"])


def attention(w: Arrays, name: str, h: jax.Array, heads: int) -> jax.Array:
    n, t, width = h.shape
    query, key, value = (dense(w, f"{name}_{p}", h).reshape(n, t, heads, -1) for p in ("query", "key", "value"))
    scores = jnp.einsum("nqhd,nkhd->nhqk", query, key) * (width / heads) ** -0.5
    mixed = jnp.einsum("nhqk,nkhd->nqhd", jax.nn.softmax(scores), value)
    return dense(w, f"{name}_out", mixed.reshape(n, t, width))


def feed_forward(w: Arrays, name: str, h: jax.Array) -> jax.Array:
    return dense(w, f"{name}_back", jax.nn.gelu(dense(w, f"{name}_in", h), approximate=False))


def encoder(w: Arrays, h: jax.Array, layers: int, heads: int) -> jax.Array:
    """BERT's blocks, data (n, t, width): LayerNorm after each sum."""
    for i in range(layers):
        name = f"block{i}_attention"
        h = layer_norm(w, f"{name}_norm", h + attention(w, name, h, heads))
        name = f"block{i}_ffn"
        h = layer_norm(w, f"{name}_norm", h + feed_forward(w, name, h))
    return h


def pre_norm(
    w: Arrays,
    h: jax.Array,
    layers: int,
    heads: int,
    normal: Callable[..., jax.Array] = normalised,
    between: Callable[[jax.Array], jax.Array] = lambda h: h,
) -> jax.Array:
    """Blocks with LayerNorm on the branches. normal: the LayerNorm; between: what each residual sum goes through."""
    for i in range(layers):
        name = f"block{i}_attention"
        h = between(h + attention(w, name, layer_norm(w, f"{name}_norm", h, normal), heads))
        name = f"block{i}_ffn"
        h = between(h + feed_forward(w, name, layer_norm(w, f"{name}_norm", h, normal)))
    return h


def lstm(w: Arrays, h: jax.Array) -> jax.Array:
    """Layers of LSTM, data (t, n, features): the inputs' products outside of the loop, the recurrent ones in it."""
    for layer in range(2):
        size = w[f"recurrent{layer}"].shape[0]

        def step(carry: tuple[jax.Array, jax.Array], gates: jax.Array, layer: int = layer, size: int = size) -> Any:
            state, cell = carry
            gates = gates + state @ w[f"recurrent{layer}"]
            into, forget, candidate, out = (gates[:, i * size : (i + 1) * size] for i in range(4))
            cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(into) * jnp.tanh(candidate)
            state = jax.nn.sigmoid(out) * jnp.tanh(cell)
            return (state, cell), state

        start = jnp.zeros((h.shape[1], size), h.dtype)
        h = lax.scan(step, (start, start), h @ w[f"input{layer}"] + w[f"bias{layer}"])[1]
    return h


def unpacked(packed: np.ndarray, size: int = 512, layers: int = 2) -> Arrays:
    """The RNN operator's vector, all weights and then all biases, as matrices (in, out) and one bias a layer."""
    weights = packed[: layers * 8 * size * size].reshape(layers, 2, 4 * size, size)
    biases = packed[layers * 8 * size * size :].reshape(layers, 2, 4 * size).sum(1)
    found = {f"{part}{i}": weights[i, j].T for i in range(layers) for j, part in enumerate(("input", "recurrent"))}
    return {
        name: jnp.asarray(value) for name, value in (found | {f"bias{i}": biases[i] for i in range(layers)}).items()
    }


def resnet18(w: Arrays, h: jax.Array) -> jax.Array:
    """Gluon's ResNet-18, version 1, in inference: data (n, 3, 224, 224), channels first as its weights are."""

    def unit(h: jax.Array, name: str, number: int, stride: int, active: bool = True) -> jax.Array:
        weight, norm = w[f"resnet18_{name}conv{number}_weight"], f"resnet18_{name}batchnorm{number}"
        pad, order = weight.shape[2] // 2, ("NCHW", "OIHW", "NCHW")
        h = lax.conv_general_dilated(h, weight, (stride, stride), [(pad, pad)] * 2, dimension_numbers=order)
        scale = w[f"{norm}_gamma"] * lax.rsqrt(w[f"{norm}_running_var"] + 1e-5)
        shift = w[f"{norm}_beta"] - w[f"{norm}_running_mean"] * scale
        h = h * scale[:, None, None] + shift[:, None, None]
        return jnp.maximum(h, 0) if active else h

    h = unit(h, "", 0, 2)
    h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)])
    for stage in range(1, 5):
        name, number = f"stage{stage}_", 0
        for block in range(2):
            widens = stage > 1 and block == 0
            short = unit(h, name, 2, 2, active=False) if widens else h
            h = unit(unit(h, name, number, 2 if widens else 1), name, number + 1, 1, active=False)
            h, number = jnp.maximum(h + short, 0), number + 2 + widens
    return h.mean((2, 3)) @ w["resnet18_dense0_weight"].T + w["resnet18_dense0_bias"]


Function = Callable[[Arrays, jax.Array], jax.Array]


def by_hand(name: str, args: Mapping[str, Any], aux: Mapping[str, Any]) -> tuple[Function, Arrays]:
    """A network of `zoo_models` as a function of weights and data, and its weights, made of the network's."""
    if name == "lstm":
        return lstm, unpacked(np.asarray(args["rnn_parameters"]))
    if name == "resnet18":
        return resnet18, {name: jnp.asarray(array) for name, array in {**args, **aux}.items()}
    layers = {"bert": 12, "transformer4": 4}[name]
    return lambda w, x: encoder(w, x, layers=layers, heads=12), transposed(args)


def load(row: Row, folder: str) -> Loaded:
    """Inference of a network that is here."""
    _, args, aux = symjax_nnvm.load_checkpoint(files(folder, row), 0)
    data = jnp.asarray(inputs(row, ())["data"])
    plain, weights = by_hand(row.name, args, aux)
    function = jax.jit(plain)
    first = np.asarray(function(weights, data))
    return Loaded(lambda: jax.block_until_ready(function(weights, data)), [first])


if __name__ == "__main__":
    serve(row_of(load))
