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


def load(row: Row, folder: str) -> Loaded:
    """Inference of the encoder or the LSTM."""
    _, args, _ = symjax_nnvm.load_checkpoint(files(folder, row), 0)
    data = jnp.asarray(inputs(row, ())["data"])
    if row.name == "lstm":
        weights, function = unpacked(np.asarray(args["rnn_parameters"])), jax.jit(lstm)
    else:
        weights = transposed(args)
        function = jax.jit(lambda w, x: encoder(w, x, layers=12, heads=12))
    first = np.asarray(function(weights, data))
    return Loaded(lambda: jax.block_until_ready(function(weights, data)), [first])


if __name__ == "__main__":
    serve(row_of(load))
