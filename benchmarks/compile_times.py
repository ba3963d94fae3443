"""What the first step of a training costs: building, tracing, lowering and compiling it, by network.

    python benchmarks/compile_times.py FOLDER [--rows mobilenet-b16-train,resnet18-b16-train] [--options]
    python benchmarks/compile_times.py FOLDER --by-hand [--rows resnet18-b1]

FOLDER: where `zoo.py --models` keeps the networks. Each row is a process of its own; seconds of wall clock and, in
brackets, of processor time of all threads. kernels: the fused loops of the program, and how many of them differ, up to
the names in them: XLA:CPU compiles equal ones once, and takes about 20 ms of processor time for each other.
--options: also the compile time, and the step's, all taking turns, with each of `OPTIONS` added to ours.
--by-hand: instead, the first call of a network in inference and of its gradients, beside the same written by hand in
JAX (`zoo_jax.py`), each in a process of its own.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp

import lowering
import symjax_nnvm
from benchmarks.contenders import in_process, medians, take_turns
from benchmarks.zoo_jax import by_hand
from benchmarks.zoo_models import MOMENTUM, RATE, ROWS, Row, files, inputs, with_head
from lowering.xla.compile_options import options_for
from symjax_nnvm import symbol as sym

OPTIONS: dict[str, dict[str, Any]] = {
    "ours": {},
    "no fusion emitters": {"xla_cpu_use_fusion_emitters": False},
    "LLVM level 1": {"xla_backend_optimization_level": 1},
    "no expensive passes": {"xla_llvm_disable_expensive_passes": True},
    "one module": {"xla_cpu_parallel_codegen_split_count": 1},
    "vectors of 512": {"xla_cpu_prefer_vector_width": 512},
}


def timed(function: Callable[[], Any]) -> tuple[str, Any]:
    """("wall (processor)" in seconds, result) of a call."""
    wall, processor = time.perf_counter(), time.process_time()
    result = function()
    return f"{time.perf_counter() - wall:.2f} ({time.process_time() - processor:.2f})", result


def measure(row: Row, folder: str, options: bool) -> None:
    """Print what each phase of the row's training step takes."""
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
    print(row.label, *(f"  {name} {seconds}" for name, seconds in phases.items()), sep="\n")
    print("  kernels {}, different {}".format(*kernels(compiled["ours"].as_text() or "")))
    calls = compiled.items() if options else ()
    ways = {name: in_process(lambda run=run: jax.block_until_ready(run(state, batch))) for name, run in calls}
    for name, ms in medians(take_turns(ways, 9)).items():
        print(f"  step, {name}: {ms:.0f} ms")


WAYS = ("by hand", "Predictor", "compile", "gradient by hand", "gradient")


def first_call(row: Row, folder: str, way: str) -> None:
    """Print what the first call takes, one of `WAYS`."""
    net, args, aux = symjax_nnvm.load_checkpoint(files(folder, row), 0)
    data = jax.device_put(inputs(row, ())["data"])
    values, states = jax.device_put(({**args, "data": data}, dict(aux)))
    plain, weights = by_hand(row.name, args, aux)
    heads = [jnp.ones(net.infer_shape(data=row.shape)[1][0])]
    gradient = lowering.grad_fn(net, list(args), is_train=False)
    calls: dict[str, Callable[[], Any]] = {
        "by hand": lambda: jax.jit(plain)(weights, data),
        "Predictor": lambda: lowering.Predictor(net, args, aux)(data=data),
        "compile": lambda: lowering.compile(net)(values, states),
        "gradient by hand": lambda: jax.jit(jax.grad(lambda w: plain(w, data).sum()))(weights),
        "gradient": lambda: jax.jit(lambda values: gradient(values, states, head_grads=heads)[1])(values),
    }
    print(f"{row.label:14} {way:18}", timed(lambda: jax.block_until_ready(calls[way]()))[0])


def kernels(hlo: str) -> tuple[int, int]:
    """How many fused loops there are, and how many different ones."""
    bodies = re.findall(r"^%fused_computation[\w.]* \([^\n]*\{\n(.*?)^\}", hlo, re.MULTILINE | re.DOTALL)
    return len(bodies), len(set(map(_anonymous, bodies)))


def _anonymous(body: str) -> str:
    """The text of a computation with its names numbered in order."""
    names: dict[str, str] = {}
    plain = re.sub(r", metadata=\{[^}]*\}|, backend_config=\{.*\}|/\*.*?\*/", "", body)
    return re.sub(r"%[\w.\-]+", lambda name: names.setdefault(name[0], f"%{len(names)}"), plain)


def main() -> None:
    """Measure the rows, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rows")
    parser.add_argument("--options", action="store_true")
    parser.add_argument("--by-hand", action="store_true")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    kind = [row for row in ROWS if (row.network.by_hand and not row.training if options.by_hand else row.training)]
    rows = [row for row in kind if options.rows is None or row.label in options.rows.split(",")]
    if options.way:
        first_call(rows[0], options.folder, options.way)
        return
    if options.by_hand:
        for row, way in itertools.product(rows, WAYS):
            child = [options.folder, "--by-hand", "--rows", row.label, "--way", way]
            subprocess.run([sys.executable, __file__, *child], check=True)
        return
    if len(rows) == 1:
        measure(rows[0], options.folder, options.options)
        return
    for row in rows:
        more = ["--options"] if options.options else []
        subprocess.run([sys.executable, __file__, options.folder, "--rows", row.label, *more], check=True)


if __name__ == "__main__":
    lowering.keep_memory()
    main()
