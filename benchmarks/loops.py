"""Loops: `foreach` and `while_loop` beside `lax.scan` and `lax.while_loop` written by hand, and beside MXNet.

    python benchmarks/loops.py [--rounds 9] [--mxnet PYTHON] [--only lstm]

By hand the step is the network's, line by line; gradients are `jax.grad`'s. The loop of 64 steps of a `while_loop` ends
by its condition; by hand its gradient is that of a scan whose steps past the end change nothing, for JAX differentiates
no `lax.while_loop`. Gradients are by all arguments, of the sum of the result. All take turns; a ratio is the median of
the rounds' ratios. --mxnet: the Python of an environment with MXNet 1.9.1, which runs the same symbols in a process of
its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import Loaded, compare

STEPS, BATCH, WIDTH = 64, 32, 256


class Loop(NamedTuple):
    """A network. build: of a symbol module. shapes: of its arguments and states. by_hand: (JAX's modules, arguments,
    whether it is differentiated) → the result."""

    build: Callable[[Any], Any]
    shapes: dict[str, tuple[int, ...]]
    by_hand: Callable[..., Any]


# -- a recurrent cell by foreach ---------------------------------------------------------------------------------------


def _dense(sym: Any, data: Any, name: str, width: int) -> Any:
    weight, bias = sym.Variable(f"{name}_weight"), sym.Variable(f"{name}_bias")
    return sym.FullyConnected(data, weight, bias, num_hidden=width, name=name)


def recurrent(sym: Any) -> Any:
    """tanh(W x + U h + b) over 64 steps."""

    def step(data: Any, states: Any) -> Any:
        hidden = sym.tanh(_dense(sym, data, "i2h", WIDTH) + _dense(sym, states[0], "h2h", WIDTH))
        return hidden, [hidden]

    return sym.contrib.foreach(step, sym.Variable("data"), [sym.Variable("state")])[0]


def _product(a: dict[str, Any], name: str, data: Any) -> Any:
    return data @ a[f"{name}_weight"].T + a[f"{name}_bias"]


def recurrent_by_hand(jax: Any, a: dict[str, Any], differentiated: bool) -> Any:
    """The same by `lax.scan`."""

    def step(hidden: Any, data: Any) -> Any:
        hidden = jax.numpy.tanh(_product(a, "i2h", data) + _product(a, "h2h", hidden))
        return hidden, hidden

    return jax.lax.scan(step, a["state"], a["data"])[1]


# -- LSTM by foreach ---------------------------------------------------------------------------------------------------


def lstm(sym: Any) -> Any:
    """MXNet's LSTMCell over 64 steps."""

    def step(data: Any, states: Any) -> Any:
        gates = _dense(sym, data, "i2h", 4 * WIDTH) + _dense(sym, states[0], "h2h", 4 * WIDTH)
        into, forget, candidate, out = sym.SliceChannel(gates, num_outputs=4)
        cell = sym.sigmoid(forget) * states[1] + sym.sigmoid(into) * sym.tanh(candidate)
        hidden = sym.sigmoid(out) * sym.tanh(cell)
        return hidden, [hidden, cell]

    return sym.contrib.foreach(step, sym.Variable("data"), [sym.Variable("state"), sym.Variable("cell")])[0]


def lstm_by_hand(jax: Any, a: dict[str, Any], differentiated: bool) -> Any:
    """The same by `lax.scan`."""
    sigmoid, tanh = jax.nn.sigmoid, jax.numpy.tanh

    def step(states: Any, data: Any) -> Any:
        hidden, cell = states
        gates = _product(a, "i2h", data) + _product(a, "h2h", hidden)
        into, forget, candidate, out = jax.numpy.split(gates, 4, axis=1)
        cell = sigmoid(forget) * cell + sigmoid(into) * tanh(candidate)
        hidden = sigmoid(out) * tanh(cell)
        return (hidden, cell), hidden

    return jax.lax.scan(step, (a["state"], a["cell"]), a["data"])[1]


# -- a while_loop ------------------------------------------------------------------------------------------------------


def iterated(sym: Any) -> Any:
    """h ← tanh(U h + b), 64 times of at most 80; the last h and all of them."""

    def step(count: Any, hidden: Any) -> Any:
        hidden = sym.tanh(_dense(sym, hidden, "h2h", WIDTH))
        return hidden, [count + 1, hidden]

    variables = [sym.Variable("count"), sym.Variable("state")]
    outputs, states = sym.contrib.while_loop(
        cond=lambda count, hidden: count < STEPS, func=step, loop_vars=variables, max_iterations=80
    )
    return sym.broadcast_add(outputs if not isinstance(outputs, list) else outputs[0], states[1].expand_dims(0))


def iterated_by_hand(jax: Any, a: dict[str, Any], differentiated: bool) -> Any:
    """The same by `lax.while_loop`, or to be differentiated by `lax.scan`."""
    jnp = jax.numpy

    def step(hidden: Any) -> Any:
        return jnp.tanh(_product(a, "h2h", hidden))

    if differentiated:

        def scanned(carry: Any, _: Any) -> Any:
            count, hidden = carry
            runs = count[0] < STEPS
            new = jnp.where(runs, step(hidden), hidden)
            return (count + 1, new), jnp.where(runs, new, 0)

        (_, last), outputs = jax.lax.scan(scanned, (a["count"], a["state"]), length=80)
        return outputs + last

    def body(carry: Any) -> Any:
        count, hidden, outputs, place = carry
        hidden = step(hidden)
        return count + 1, hidden, jax.lax.dynamic_update_index_in_dim(outputs, hidden, place, 0), place + 1

    start = a["count"], a["state"], jnp.zeros((80, *a["state"].shape), a["state"].dtype), 0
    _, last, outputs, _ = jax.lax.while_loop(lambda carry: carry[0][0] < STEPS, body, start)
    return outputs + last


_I2H, _H2H = {"i2h_weight": (WIDTH, WIDTH), "i2h_bias": (WIDTH,)}, {"h2h_weight": (WIDTH, WIDTH), "h2h_bias": (WIDTH,)}
_GATES = {name: (4 * shape[0], *shape[1:]) for name, shape in {**_I2H, **_H2H}.items()}
_DATA = {"data": (STEPS, BATCH, WIDTH), "state": (BATCH, WIDTH)}

LOOPS = {
    "recurrent, foreach": Loop(recurrent, {**_DATA, **_I2H, **_H2H}, recurrent_by_hand),
    "lstm, foreach": Loop(lstm, {**_DATA, "cell": (BATCH, WIDTH), **_GATES}, lstm_by_hand),
    "recurrent, while_loop": Loop(iterated, {"count": (1,), "state": (BATCH, WIDTH), **_H2H}, iterated_by_hand),
}


def _values(loop: Loop) -> dict[str, np.ndarray]:
    random = np.random.RandomState(0)
    values = {n: random.uniform(-0.1, 0.1, shape).astype("float32") for n, shape in loop.shapes.items()}
    if "count" in values:
        values["count"] = np.zeros(1, "float32")
    return values


def _wrt(loop: Loop) -> list[str]:
    return [name for name in loop.shapes if name != "count"]


def load_in_mxnet(name: str, part: str) -> Loaded:
    """The network in MXNet's executor."""
    import mxnet as mx  # type: ignore[import-not-found]

    loop, gradient = LOOPS[name], part == "gradient"
    args = {n: mx.nd.array(value) for n, value in _values(loop).items()}
    requests = {n: "write" if n in _wrt(loop) else "null" for n in args}
    net = loop.build(mx.sym)
    executor = net.bind(mx.cpu(), args, args_grad={n: a.zeros_like() for n, a in args.items()}, grad_req=requests)
    ones = executor.forward(is_train=False)[0].ones_like()

    def call() -> None:
        executor.forward(is_train=gradient)
        if gradient:
            executor.backward(ones)
        mx.nd.waitall()

    return Loaded(call)


def _ours_and_by_hand(name: str, gradient: bool) -> dict[str, Callable[[], Any]]:
    """A call of each, whose results are compared first."""
    import jax

    import lowering
    from symjax_nnvm import symbol as sym

    loop = LOOPS[name]
    args = {n: jax.numpy.asarray(value) for n, value in _values(loop).items()}
    net = loop.build(sym)
    if gradient:
        grads = lowering.grad_fn(net, wrt=_wrt(loop))
        ones = jax.numpy.ones(net.infer_shape(**loop.shapes)[1][0])
        ours = jax.jit(lambda args: grads(args, head_grads=[ones])[1])
        by_hand = jax.jit(
            lambda args: jax.grad(lambda wrt: loop.by_hand(jax, {**args, **wrt}, True).sum())(
                {n: args[n] for n in _wrt(loop)}
            )
        )
    else:
        forward = lowering.to_jax(net)
        ours, by_hand = jax.jit(lambda args: forward(args)[0][0]), jax.jit(lambda args: loop.by_hand(jax, args, False))
    for a, b in zip(jax.tree.leaves(ours(args)), jax.tree.leaves(by_hand(args)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * float(abs(b).max()))
    calls = {"ours": ours, "by hand": by_hand}
    return {way: lambda call=call: jax.block_until_ready(call(args)) for way, call in calls.items()}


ROWS = {
    (name, part): partial(_ours_and_by_hand, name, part == "gradient")
    for name in LOOPS
    for part in ("forward", "gradient")
}

if __name__ == "__main__":
    ways = ("ours", "by hand")
    compare(__doc__, ("loop", "part"), ways, ROWS, load_in_mxnet, rounds=9, seconds=0.2, pause=0.05)
