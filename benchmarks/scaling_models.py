"""The networks of `scaling.py`: as symbols, and as an expert writes their training step in JAX by hand.

The two have the same parameters, by name and shape, and the same shardings; what differs is who wrote the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks.zoo_jax import pre_norm
from benchmarks.zoo_models import blocks
from symjax_nnvm import symbol as sym

Arrays = Mapping[str, jax.Array]
Loss = Callable[[Arrays, Arrays, Arrays], tuple[jax.Array, dict[str, jax.Array]]]

RATE, MOMENTUM, DECAY = 0.1, 0.9, 0.9


@dataclass(frozen=True)
class Model:
    """net: under its loss head. data, label: shapes of one sample, after the batch. loss: (parameters, states, batch) →
    (the loss of which the head's gradient is that of a batch's sum, new states), by hand."""

    net: sym.Symbol
    data: tuple[int, ...]
    label: tuple[int, ...]
    loss: Loss


# -- ResNet (He et al. 2015) -------------------------------------------------------------------------------------------


def _units(stages: tuple[int, ...]) -> list[tuple[str, int, int, bool]]:
    """(name, filters, stride, whether the shortcut is a convolution) of each block."""
    return [
        (f"stage{i}_block{j}", 2**i, 2 if i and not j else 1, not j)
        for i, count in enumerate(stages)
        for j in range(count)
    ]


def resnet(stages: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, size: int = 224, classes: int = 1000) -> Model:
    """ResNet-50 by default: bottleneck blocks, batch normalisation, images (3, size, size)."""

    def unit(h: Any, name: str, filters: int, kernel: int, stride: int = 1) -> Any:
        window, steps, pad = ((size, size) for size in (kernel, stride, kernel // 2))
        h = sym.Convolution(h, kernel=window, stride=steps, pad=pad, num_filter=filters, no_bias=True, name=name)
        return sym.BatchNorm(h, fix_gamma=False, name=f"{name}_bn")

    h = sym.relu(unit(sym.Variable("data"), "stem", width, 7, 2))
    h = sym.Pooling(h, kernel=(3, 3), stride=(2, 2), pad=(1, 1), pool_type="max")
    for name, factor, stride, projected in _units(stages):
        short = unit(h, f"{name}_short", 4 * width * factor, 1, stride) if projected else h
        inner = sym.relu(unit(h, f"{name}_a", width * factor, 1, stride))
        inner = sym.relu(unit(inner, f"{name}_b", width * factor, 3))
        h = sym.relu(unit(inner, f"{name}_c", 4 * width * factor, 1) + short)
    h = sym.Flatten(sym.Pooling(h, kernel=(1, 1), global_pool=True, pool_type="avg"))
    net = sym.SoftmaxOutput(sym.FullyConnected(h, num_hidden=classes, name="fc"), name="softmax")

    def loss(w: Arrays, states: Arrays, batch: Arrays) -> tuple[jax.Array, dict[str, jax.Array]]:
        moved: dict[str, jax.Array] = {}

        def unit(h: jax.Array, name: str, stride: int = 1) -> jax.Array:
            pad = w[f"{name}_weight"].shape[2] // 2
            h = lax.conv_general_dilated(h, w[f"{name}_weight"], (stride, stride), [(pad, pad)] * 2)
            mean, variance = h.mean((0, 2, 3)), h.var((0, 2, 3))
            for what, value in (("mean", mean), ("var", variance)):
                key = f"{name}_bn_moving_{what}"
                moved[key] = lax.stop_gradient(DECAY * states[key] + (1 - DECAY) * value)
            scale = w[f"{name}_bn_gamma"] * lax.rsqrt(variance + 1e-3)
            return h * scale[:, None, None] + (w[f"{name}_bn_beta"] - mean * scale)[:, None, None]

        h = jax.nn.relu(unit(batch["data"], "stem", 2))
        window = (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)]
        h = lax.reduce_window(h, -jnp.inf, lax.max, *window)
        for name, _, stride, projected in _units(stages):
            short = unit(h, f"{name}_short", stride) if projected else h
            inner = jax.nn.relu(unit(h, f"{name}_a", stride))
            inner = jax.nn.relu(unit(inner, f"{name}_b"))
            h = jax.nn.relu(unit(inner, f"{name}_c") + short)
        logits = h.mean((2, 3)) @ w["fc_weight"].T + w["fc_bias"]
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["softmax_label"].astype(int)[:, None], 1)
        return -picked.sum(), moved

    return Model(net, (3, size, size), (), loss)


# -- transformer -------------------------------------------------------------------------------------------------------


def transformer(layers: int = 24, width: int = 1024, heads: int = 16, length: int = 128) -> Model:
    """Blocks with LayerNorm on the branches, as in GPT-2; 24 of width 1024 by default: 302 million parameters."""
    net = sym.LinearRegressionOutput(blocks(sym, layers, width, heads, pre_norm=True), name="head")

    def loss(w: Arrays, states: Arrays, batch: Arrays) -> tuple[jax.Array, dict[str, jax.Array]]:
        turned = {name: value.T if name.endswith("weight") else value for name, value in w.items()}
        difference = pre_norm(turned, batch["data"], layers, heads) - batch["head_label"]
        return jnp.square(difference).sum() / 2 / (length * width), {}

    return Model(net, (length, width), (length, width), loss)


def perceptron(width: int = 32) -> Model:
    """Two dense layers, (width,) → 8 classes: for tests."""
    h = sym.tanh(sym.FullyConnected(sym.Variable("data"), num_hidden=2 * width, name="fc1"))
    net = sym.SoftmaxOutput(sym.FullyConnected(h, num_hidden=8, name="fc2"), name="softmax")

    def loss(w: Arrays, states: Arrays, batch: Arrays) -> tuple[jax.Array, dict[str, jax.Array]]:
        h = jnp.tanh(batch["data"] @ w["fc1_weight"].T + w["fc1_bias"])
        logits = h @ w["fc2_weight"].T + w["fc2_bias"]
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["softmax_label"].astype(int)[:, None], 1)
        return -picked.sum(), {}

    return Model(net, (width,), (), loss)


MODELS: dict[str, Callable[[], Model]] = {"resnet50": resnet, "transformer24": transformer}


# -- the step, by hand -------------------------------------------------------------------------------------------------


def step_by_hand(loss: Loss, batch_size: int) -> Callable[..., Any]:
    """(parameters, momenta, states, batch) → the same after a step of SGD with momentum, as MXNet's."""

    def step(params: Arrays, momenta: Arrays, states: Arrays, batch: Arrays) -> Any:
        (_, moved), grads = jax.value_and_grad(loss, has_aux=True)(params, states, batch)
        momenta = {n: MOMENTUM * momenta[n] - RATE / batch_size * grads[n] for n in params}
        return {n: params[n] + momenta[n] for n in params}, momenta, moved

    return step
