"""What the first step of a training costs: building, tracing, lowering and compiling it; and first calls beside JAX's.

    python benchmarks/compiling.py steps FOLDER [--rows mobilenet-b16-train,resnet18-b16-train] [--options]
    python benchmarks/compiling.py calls FOLDER [--rows resnet18-b1]
    python benchmarks/compiling.py operators

FOLDER: where `zoo.py --models` keeps the networks. Each row is a process of its own; seconds of wall clock and, in
brackets, of processor time of all threads.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp

import lowering
import symjax_nnvm
from benchmarks.by_hand import network_by_hand
from benchmarks.contenders import fresh, in_process, medians, run, take_turns
from benchmarks.networks import MOMENTUM, RATE, ROWS, Row, files, inputs, with_head
from benchmarks.zoo import fusions
from lowering.xla.compile_options import options_for
from symjax_nnvm import symbol as sym
from symjax_nnvm.symbol.symbol import Symbol

OPTIONS: dict[str, dict[str, Any]] = {
    "ours": {},
    "no library": {"xla_cpu_experimental_ynn_fusion_type": ""},
    "no fusion emitters": {"xla_cpu_use_fusion_emitters": False},
    "LLVM level 1": {"xla_backend_optimization_level": 1},
}
"""Of XLA, added to ours."""


def timed(function: Callable[[], Any]) -> tuple[str, Any]:
    """("wall (processor)" in seconds, result) of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    result = function()
    return f"{time.perf_counter() - wall:.2f} ({time.process_time() - processor:.2f})", result


def _row(label: str) -> Row:
    return next(row for row in ROWS if row.label == label)


def first_step(label: str, folder: str, options: bool) -> list[str]:
    """What each phase of a row's training step takes, as lines."""
    lowering.keep_memory()
    row = _row(label)
    net, args, aux = symjax_nnvm.load_checkpoint(files(folder, row), 0)
    batch = {name: jax.device_put(a) for name, a in inputs(row, net.infer_shape(data=row.shape)[1][0]).items()}
    numbers = {"learning_rate": RATE, "momentum": MOMENTUM, "rescale_grad": 1 / row.batch}
    built, trainer = timed(lambda: lowering.Trainer(with_head(sym, net, row), "sgd", numbers))
    drawn, state = timed(lambda: jax.block_until_ready(trainer.init(0, args, aux, data=row.shape)))
    traced, jaxpr = timed(lambda: trainer.step_fn.plain.trace(state, batch))
    lowered, program = timed(jaxpr.lower)
    phases = {"Trainer()": built, "init": drawn, "trace": traced, "lower": lowered}
    ours = dict(options_for("cpu") or {})
    compiled = {}
    for name, more in OPTIONS.items() if options else [("ours", {})]:
        phases[f"compile, {name}"], compiled[name] = timed(
            lambda more=more: program.compile(compiler_options={**ours, **more})
        )

    def step(program: Any) -> None:
        nonlocal state  # which a step gives away
        state, outputs = program(state, batch)
        jax.block_until_ready((state, outputs))

    ways = {name: in_process(partial(step, each)) for name, each in compiled.items()} if options else {}
    times = medians(take_turns(ways, 9))
    lines = [label, *(f"  {name} {seconds}" for name, seconds in phases.items())]
    lines.append("  kernels {}, different {}".format(*kernels(compiled["ours"].as_text() or "")))
    return [*lines, *(f"  step, {name}: {ms:.0f} ms" for name, ms in times.items())]


WAYS = ("by hand", "Predictor", "compile", "gradient by hand", "gradient")


def first_call(label: str, folder: str, way: str) -> str:
    """What the first call takes, one of `WAYS`."""
    lowering.keep_memory()
    row = _row(label)
    net, args, aux = symjax_nnvm.load_checkpoint(files(folder, row), 0)
    data = jax.device_put(inputs(row, ())["data"])
    values, states = jax.device_put(({**args, "data": data}, dict(aux)))
    plain, weights = network_by_hand(row.name, args, aux)
    heads = [jnp.ones(net.infer_shape(data=row.shape)[1][0])]
    gradient = lowering.grad_fn(net, list(args), is_train=False)
    ways: dict[str, Callable[[], Any]] = {
        "by hand": lambda: jax.jit(plain)(weights, data),
        "Predictor": lambda: lowering.Predictor(net, args, aux)(data=data),
        "compile": lambda: lowering.compile(net)(values, states),
        "gradient by hand": lambda: jax.jit(jax.grad(lambda w: plain(w, data).sum()))(weights),
        "gradient": lambda: jax.jit(lambda values: gradient(values, states, head_grads=heads)[1])(values),
    }
    with lowering.effort("full"):
        return timed(lambda: jax.block_until_ready(ways[way]()))[0]


def kernels(hlo: str) -> tuple[int, int]:
    """How many fused loops there are, and how many different ones."""
    bodies = ["\n".join(instructions) for instructions in fusions(hlo)]
    return len(bodies), len(set(map(_anonymous, bodies)))


def _anonymous(body: str) -> str:
    """The text of a computation with its names numbered in order."""
    names: dict[str, str] = {}
    plain = re.sub(r", metadata=\{[^}]*\}|, backend_config=\{.*\}|/\*.*?\*/", "", body)
    return re.sub(r"%[\w.\-]+", lambda name: names.setdefault(name[0], f"%{len(names)}"), plain)


def steps(folder: str, rows: str | None = None, options: bool = False) -> None:
    """Print what each phase of a training step takes.

    kernels: the fused loops of the program, and how many of them differ, up to the names in them: XLA:CPU compiles
    equal ones once, and takes about 20 ms of processor time for each other. --options: also the compile time, and the
    step's, all taking turns, with each of `OPTIONS` added to ours.
    """
    for row in ROWS:
        if row.training and (rows is None or row.label in rows.split(",")):
            print(*fresh(first_step, row.label, folder, options), sep="\n", flush=True)


def calls(folder: str, rows: str | None = None) -> None:
    """Print what the first call of a network takes in inference, and of its gradients, beside the same by hand."""
    for row in ROWS:
        if row.network.by_hand and not row.training and (rows is None or row.label in rows.split(",")):
            for way in WAYS:
                print(f"{row.label:14} {way:18} {fresh(first_call, row.label, folder, way)}", flush=True)


X = sym.Variable("x")
OPERATORS: dict[str, tuple[Symbol, tuple[int, ...]]] = {
    "Convolution": (sym.Convolution(X, kernel=(5, 5), num_filter=20), (64, 1, 28, 28)),
    "Pooling": (sym.Pooling(X, kernel=(2, 2), stride=(2, 2), pool_type="max"), (64, 20, 24, 24)),
    "BatchNorm": (sym.BatchNorm(X), (64, 20, 24, 24)),
    "Activation": (sym.Activation(X, act_type="relu"), (64, 20, 24, 24)),
    "FullyConnected": (sym.FullyConnected(X, num_hidden=500), (64, 800)),
    "log_softmax": (sym.log_softmax(X), (512, 1024)),
    "LayerNorm": (sym.LayerNorm(X), (512, 1024)),
    "LeakyReLU": (sym.LeakyReLU(X, act_type="gelu"), (512, 1024)),
    "transpose": (sym.transpose(X, axes=(0, 2, 3, 1)), (64, 64, 56, 56)),
    "sort": (sym.sort(X), (512, 1024)),
    "cumsum": (sym.cumsum(X, axis=1), (512, 1024)),
    "batch_dot": (sym.batch_dot(X, X), (64, 64, 64)),
    "take": (sym.take(sym.Variable("a", shape=(1000, 128)), X), (64, 50)),
    "RNN": (sym.RNN(X, state_size=128, num_layers=1, mode="lstm"), (64, 32, 128)),
}
"""Symbols of one operator, and the shape of x."""


def operators() -> None:
    """Print milliseconds of processor time that compiling single operators and their gradients takes, and running them:
    with the options of networks, and with those of few equations."""
    kinds = {"as networks": options_for("cpu"), "few equations": options_for("cpu", "few")}
    print(f"{'':26}", *(f"{name + ': compile, run':>32}" for name in kinds))
    for name, (net, shape) in OPERATORS.items():
        shapes, outputs, states = net.infer_shape(x=shape)
        values = [
            dict(zip(names, map(jnp.ones, sizes), strict=True))
            for names, sizes in ((net.list_arguments(), shapes), (net.list_auxiliary_states(), states))
        ]
        forward, gradient = lowering.to_jax(net), lowering.grad_fn(net)
        heads = [*map(jnp.ones, outputs)]
        parts = {
            name: (forward, values),
            f"{name}, gradient": (lambda *a, f=gradient: f(*a[:2], head_grads=a[2]), [*values, heads]),
        }
        for part, (function, arguments) in parts.items():
            print(f"{part:26}", *(f"{_compiled_and_run(function, arguments, kind):>32}" for kind in kinds.values()))


def _compiled_and_run(function: Callable[..., Any], arguments: Any, options: Any) -> str:
    """Compile a function, run it, and return the milliseconds of processor time that each takes."""
    lowered = jax.jit(lambda *arguments: function(*arguments)).lower(*arguments)
    began = time.process_time()
    program = lowered.compile(compiler_options=options)
    compiling = time.process_time() - began
    times = []
    for _ in range(15):
        began = time.process_time()
        jax.block_until_ready(program(*arguments))
        times.append(time.process_time() - began)
    return f"{1e3 * compiling:.1f} {1e3 * median(times):10.3f}"


if __name__ == "__main__":
    run(__doc__, steps, calls, operators)
