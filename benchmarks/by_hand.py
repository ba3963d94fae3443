"""Ours against the same written by hand in JAX, and against MXNet: networks, loops, and gradients of operators.

    python benchmarks/by_hand.py times [--only LeNet loop gradient] [--rounds 15] [--mxnet PYTHON]
    python benchmarks/by_hand.py instructions

By hand are plain, well-written functions of the same weights, as one writes them without us. Single operators are our
lowered function, differentiated by `jax.vjp`, and compiled with the library's options, as ours is. A gradient is
outputs and gradients together. All take turns. --mxnet: the Python of an environment with MXNet
1.9.1, which runs the same symbols with all cores. Other scripts take the networks by hand from here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import lowering
from benchmarks.contenders import compare, print_table, run
from benchmarks.networks import CASES, ITERATIONS, STEPS, resnet_units
from lowering.xla.compile_options import options_for
from symjax_nnvm import symbol as sym

Arrays = dict[str, jax.Array]

# -- the networks of `zoo.py` and `scaling.py` -------------------------------------------------------------------------


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


def network_by_hand(name: str, args: Mapping[str, Any], aux: Mapping[str, Any]) -> tuple[Function, Arrays]:
    """A network of `zoo.py` as a function of weights and data, and its weights, made of the network's."""
    if name == "lstm":
        return lstm, unpacked(np.asarray(args["rnn_parameters"]))
    if name == "resnet18":
        return resnet18, {name: jnp.asarray(array) for name, array in {**args, **aux}.items()}
    layers = {"bert": 12, "transformer4": 4}[name]
    return lambda w, x: encoder(w, x, layers=layers, heads=12), transposed(args)


def resnet(w: Any, states: Any, h: jax.Array, stages: Sequence[int], is_train: bool = True) -> tuple[jax.Array, Arrays]:
    """Logits of `networks.resnet`, and in training the new states."""
    moved: Arrays = {}

    def unit(h: jax.Array, name: str, stride: int = 1) -> jax.Array:
        pad = w[f"{name}_weight"].shape[2] // 2
        h = lax.conv_general_dilated(h, w[f"{name}_weight"], (stride, stride), [(pad, pad)] * 2)
        mean, variance = (states[f"{name}_bn_moving_{what}"] for what in ("mean", "var"))
        if is_train:
            for what, old, new in (("mean", mean, h.mean((0, 2, 3))), ("var", variance, h.var((0, 2, 3)))):
                moved[f"{name}_bn_moving_{what}"] = lax.stop_gradient(0.9 * old + 0.1 * new)
            mean, variance = h.mean((0, 2, 3)), h.var((0, 2, 3))
        scale = w[f"{name}_bn_gamma"] * lax.rsqrt(variance + 1e-3)
        return h * scale[:, None, None] + (w[f"{name}_bn_beta"] - mean * scale)[:, None, None]

    h = jax.nn.relu(unit(h, "stem", 2))
    h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)])
    for name, _, stride, projected in resnet_units(stages):
        short = unit(h, f"{name}_short", stride) if projected else h
        inner = jax.nn.relu(unit(h, f"{name}_a", stride))
        inner = jax.nn.relu(unit(inner, f"{name}_b"))
        h = jax.nn.relu(unit(inner, f"{name}_c") + short)
    return product(w, "fc", h.mean((2, 3))), moved


def product(w: Any, name: str, h: jax.Array) -> jax.Array:
    """FullyConnected, with its weight as it is."""
    return h @ w[f"{name}_weight"].T + w[f"{name}_bias"]


def perceptron(w: Any, h: jax.Array, layers: int) -> jax.Array:
    """Logits of `networks.perceptron`."""
    for i in range(layers - 1):
        h = jax.nn.relu(product(w, f"fc{i}", h))
    return product(w, f"fc{layers - 1}", h)


# -- the cases of `networks.py`: (arguments, whether they are differentiated) → output ---------------------------------


@jax.custom_vjp
def softmax_output(logits: jax.Array, label: jax.Array) -> jax.Array:
    """Probabilities; the gradient is that of the mean cross-entropy, softmax minus one-hot."""
    return jax.nn.softmax(logits)


def _softmax_output_forward(logits: jax.Array, label: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    probabilities = jax.nn.softmax(logits)
    return probabilities, (probabilities, label)


def _softmax_output_backward(saved: tuple[jax.Array, jax.Array], grad: jax.Array) -> tuple[jax.Array, None]:
    probabilities, label = saved
    return (probabilities - jax.nn.one_hot(label.astype(int), 10)) / len(probabilities), None


softmax_output.defvjp(_softmax_output_forward, _softmax_output_backward)


def plain_pool(x: jax.Array) -> jax.Array:
    """2×2 maxima of (n, c, h, w), windows side by side, as one writes them first; JAX splits gradients among ties."""
    return _windows(x).max(axis=(3, 5))


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
    ties = _windows(x) == out[:, :, :, None, :, None]
    first = jnp.min(jnp.where(ties, place, np.int32(4)), axis=(3, 5), keepdims=True)
    return (jnp.where(first == place, grad[:, :, :, None, :, None], 0).reshape(x.shape),)


fast_pool.defvjp(_fast_pool_forward, _fast_pool_backward)


def _windows(x: jax.Array) -> jax.Array:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2)


def lenet(a: Arrays, differentiated: bool, pool: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """LeNet with one of the poolings."""
    x = a["data"]
    for i in range(2):
        x = lax.conv_general_dilated(x, a[f"conv{i}_weight"], (1, 1), "VALID")
        x = pool(jnp.tanh(x + a[f"conv{i}_bias"][:, None, None]))
    logits = product(a, "fc1", jnp.tanh(product(a, "fc0", x.reshape(x.shape[0], -1))))
    return softmax_output(logits, a["softmax_label"])


def mlp(a: Arrays, differentiated: bool) -> jax.Array:
    """Three dense layers."""
    return softmax_output(perceptron(a, a["data"], 3), a["softmax_label"])


def recurrent(a: Arrays, differentiated: bool) -> jax.Array:
    """tanh(W x + U h + b) over 64 steps."""

    def step(hidden: jax.Array, data: jax.Array) -> Any:
        hidden = jnp.tanh(product(a, "i2h", data) + product(a, "h2h", hidden))
        return hidden, hidden

    return lax.scan(step, a["state"], a["data"])[1]


def lstm_cells(a: Arrays, differentiated: bool) -> jax.Array:
    """An LSTM's steps, the inputs' products in the loop, too."""

    def step(states: tuple[jax.Array, jax.Array], data: jax.Array) -> Any:
        hidden, cell = states
        gates = product(a, "i2h", data) + product(a, "h2h", hidden)
        into, forget, candidate, out = jnp.split(gates, 4, axis=1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(into) * jnp.tanh(candidate)
        hidden = jax.nn.sigmoid(out) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return lax.scan(step, (a["state"], a["cell"]), a["data"])[1]


def iterated(a: Arrays, differentiated: bool) -> jax.Array:
    """A `lax.while_loop`; differentiated, as JAX cannot do with one, a scan whose steps past the end do nothing."""

    def step(hidden: jax.Array) -> jax.Array:
        return jnp.tanh(product(a, "h2h", hidden))

    def scanned(carry: Any, _: None) -> Any:
        count, hidden = carry
        runs = count[0] < STEPS
        new = jnp.where(runs, step(hidden), hidden)
        return (count + 1, new), jnp.where(runs, new, 0)

    def body(carry: Any) -> Any:
        count, hidden, outputs, place = carry
        hidden = step(hidden)
        return count + 1, hidden, lax.dynamic_update_index_in_dim(outputs, hidden, place, 0), place + 1

    if differentiated:
        (_, last), outputs = lax.scan(scanned, (a["count"], a["state"]), length=ITERATIONS)
    else:
        start = a["count"], a["state"], jnp.zeros((ITERATIONS, *a["state"].shape), a["state"].dtype), 0
        _, last, outputs, _ = lax.while_loop(lambda carry: carry[0][0] < STEPS, body, start)
    return outputs + last


BY_HAND: dict[str, Callable[[Arrays, bool], jax.Array]] = {
    "MLP 784-512-256-10": mlp,
    "LeNet 28×28": partial(lenet, pool=fast_pool),
    "LeNet, plain pooling": partial(lenet, pool=plain_pool),
    "recurrent, foreach": recurrent,
    "lstm, foreach": lstm_cells,
    "recurrent, while_loop": iterated,
}
ROWS = [(name, part) for name in CASES for part in ("forward", "gradient") if part == "gradient" or name in BY_HAND]


def programs(name: str, part: str) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """A case compiled in both ways, whose results were compared if one is by hand; and the arrays that it is called
    with, all of them: XLA would compute with constants while compiling."""
    case, plain = CASES[name], BY_HAND.get(name)
    net = case.build(sym)
    values, aux = jax.device_put(case.values(net))
    heads = jax.device_put(case.heads(net.infer_shape(**case.shapes)[1]))
    wrt = case.wrt(values)
    chosen = {argument: values.pop(argument) for argument in wrt}
    gradient, forward = lowering.grad_fn(net, wrt), lowering.to_jax(net, is_train=part == "gradient")

    def outputs(chosen: Any, others: Any, aux: Any) -> Any:
        arguments = {**others, **chosen}
        return forward(arguments, aux)[0] if plain is None else [plain(arguments, part == "gradient")]

    def by_vjp(chosen: Any, others: Any, aux: Any, heads: Any) -> Any:
        found, back = jax.vjp(lambda chosen: outputs(chosen, others, aux), chosen)
        return found, back(heads)[0]

    functions = {
        "forward": (lambda chosen, others, aux, _: forward({**others, **chosen}, aux)[0], lambda *a: outputs(*a[:3])),
        "gradient": (lambda chosen, others, aux, heads: gradient({**others, **chosen}, aux, None, heads)[:2], by_vjp),
    }
    arrays = (chosen, values, aux, heads)
    options = options_for(jax.default_backend()) if plain is None else None
    compiled = [jax.jit(function, compiler_options=options).lower(*arrays).compile() for function in functions[part]]
    if plain is not None:
        for ours, theirs in zip(*(jax.tree.leaves(each(*arrays)) for each in compiled), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4 * float(abs(theirs).max()))
    return dict(zip(("ours", "by hand"), compiled, strict=True)), arrays


def _calls(name: str, part: str) -> dict[str, Callable[[], Any]]:
    compiled, arrays = programs(name, part)
    return {way: lambda each=each: jax.block_until_ready(each(*arrays)) for way, each in compiled.items()}


def times(rounds: int = 15, only: tuple[str, ...] = (), mxnet: str | None = None) -> None:
    """Print milliseconds of each case."""
    rows = {row: partial(_calls, *row) for row in ROWS}
    compare(("case", "part"), ("ours", "by hand"), rows, "case", mxnet, only, rounds=rounds, seconds=0.1, pause=0.05)


def instructions(only: tuple[str, ...] = ("MLP", "LeNet", "foreach", "while_loop")) -> None:
    """Print how many instructions XLA's optimised programs have, without parameters, constants and tuples."""
    rows = []
    for name, part in ROWS:
        if any(word in name for word in only):
            compiled, _ = programs(name, part)
            rows.append([name, part, *(str(_instructions(each.as_text())) for each in compiled.values())])
    print_table(["case", "part", "ours", "by hand"], rows, left=2)


def _instructions(hlo: str) -> int:
    found = re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][\w\-]*)\(", hlo, re.MULTILINE)
    return sum(opcode not in ("parameter", "constant", "get-tuple-element", "tuple") for opcode in found)


if __name__ == "__main__":
    run(__doc__, times, instructions)
