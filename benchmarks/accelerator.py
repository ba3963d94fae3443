"""Our speed on an accelerator against JAX by hand and PyTorch, and the operators whose values are wrong there.

    python benchmarks/accelerator.py [--minutes 8] [--torch PYTHON] [--only resnet50 lstm] [--small]

Each side is a process that loads a row's work once; when a row's sides are ready they take turns as in `contenders.py`.
A row is inference of one batch, or a whole training step with momentum. waits: ms of a call that waits for its results;
in a row: ms of one of many calls of which the last is waited for; host: ms until such a call returns; first: seconds
from nothing to the first results; ratios: ours to the best other side. PyTorch takes part if this interpreter has it,
or that of --torch: eager, and on a GPU as one CUDA graph. All sides multiply float32 as their libraries do by default
on the device, PyTorch with TF32 as XLA. Rows that have not begun after five eighths of the minutes are left out.

The goldens are MXNet's values and gradients of the tests' cases (this takes pytest), computed on the device with the
highest precision until the minutes are over: first a case of each operator, then the others. --small: the same with
small networks and one round, which shows on a CPU that the script runs.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several processes share the device

import jax
import jax.numpy as jnp
import numpy as np

import lowering
from benchmarks import by_hand, networks
from benchmarks.accelerator_rows import RATE, WORKS, Sizes, Work, sizes_of
from benchmarks.contenders import Contender, Failed, Loaded, conditions, measured, medians, run, take_turns
from benchmarks.networks import MOMENTUM, initial_values
from lowering import mx
from symjax_nnvm import symbol as sym
from symjax_nnvm.errors import NNVMError
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.tables import table_text

SIDES = ("ours", "JAX by hand", "PyTorch", "PyTorch, CUDA graph")


# -- the sides ---------------------------------------------------------------------------------------------------------


def symbol_of(work: Work, sizes: Sizes, batch: int) -> Symbol:
    """The network; in training with its loss, the cross-entropy of classes or the sum of the outputs' squares."""
    if work.network == "resnet50":
        return networks.resnet(sym, sizes.stages, sizes.width, 1000)
    if work.network == "mobilenet":
        return mx.gluon.model_zoo.vision.get_mobilenet(sizes.width / 100, prefix="")(sym.Variable("data"))
    if work.network == "lstm":
        net = networks.lstm(sym, sizes.width, batch)
    else:
        net = networks.blocks(sym, sizes.layers, sizes.width, sizes.heads, pre_norm=False)
    return sym.MakeLoss(sym.sum(sym.square(net))) if work.training else net


def ours(work: Work, is_small: bool) -> Callable[[], Any]:
    """`Predictor` or `Trainer`, with the data on the device."""
    sizes, shape = sizes_of(work, is_small)
    net = symbol_of(work, sizes, shape[1])
    data, args, aux = values_of(net, shape)
    half, effort = "bfloat16" if work.half else None, "quick" if is_small else "full"
    if not work.training:
        predict = lowering.Predictor(net, args, aux, compute_dtype=half, effort=effort)
        return lambda: predict(data=data)
    parameters = {"learning_rate": RATE, "momentum": MOMENTUM}
    trainer = lowering.Trainer(net, "sgd", parameters, compute_dtype=half, effort=effort)
    trainer.init(0, args, aux, data=shape)
    batch = {"data": data}
    if work.network == "resnet50":
        batch["softmax_label"] = jnp.zeros(shape[0])

    def step() -> Any:
        trainer.step(batch)
        return trainer.require_state().params

    return step


def jax_by_hand(work: Work, is_small: bool) -> Callable[[], Any]:
    """The network of `by_hand.py`; in half precision all of it, of float32 parameters in training."""
    sizes, shape = sizes_of(work, is_small)
    data, args, aux = values_of(symbol_of(work._replace(training=False), sizes, shape[1]), shape)
    if work.network == "resnet50":
        weights = {name: jnp.asarray(value) for name, value in {**args, **aux}.items()}

        def forward(w: Any, x: jax.Array) -> jax.Array:
            return jax.nn.log_softmax(by_hand.resnet(w, w, x, sizes.stages, work.training)[0])

    elif work.network == "lstm":
        weights = by_hand.unpacked(args["rnn_parameters"], sizes.width)
        forward = lambda w, x: by_hand.lstm(w, x)  # noqa: E731
    else:
        weights = by_hand.transposed(args)
        forward = lambda w, x: by_hand.encoder(w, x, sizes.layers, sizes.heads)  # noqa: E731

    def cast(tree: Any) -> Any:
        return jax.tree.map(lambda a: a.astype(jnp.bfloat16), tree) if work.half else tree

    if not work.training:
        weights, predict = cast(weights), jax.jit(lambda w, x: forward(w, cast(x)))
        return lambda: predict(weights, data)

    def loss(w: Any, x: jax.Array) -> jax.Array:
        outputs = forward(cast(w), cast(x)).astype(jnp.float32)
        return -outputs[:, 0].mean() if work.network == "resnet50" else jnp.square(outputs).sum() / shape[0]

    def step(state: tuple[Any, Any], x: jax.Array) -> tuple[Any, Any]:
        momenta = jax.tree.map(lambda m, g: MOMENTUM * m - RATE * g, state[1], jax.grad(loss)(state[0], x))
        return jax.tree.map(jnp.add, state[0], momenta), momenta

    jitted, state = jax.jit(step, donate_argnums=0), (weights, jax.tree.map(jnp.zeros_like, weights))

    def call() -> Any:
        nonlocal state
        state = jitted(state, data)
        return state

    return call


def values_of(net: Symbol, shape: tuple[int, ...]) -> tuple[jax.Array, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Data on the device, and parameters and states of a fixed seed."""
    shapes, _, states = net.infer_shape(data=shape)
    args = dict(zip(net.list_arguments(), shapes, strict=True))
    for name in ("data", "softmax_label"):
        args.pop(name, None)
    aux = dict(zip(net.list_auxiliary_states(), states, strict=True))
    data = np.random.RandomState(1).standard_normal(shape).astype(np.float32)
    return jax.device_put(data), initial_values(args), {name: np.ones(size, np.float32) for name, size in aux.items()}


def loaded(side: str, work: Sequence[Any], is_small: bool) -> Loaded:
    """A side of a row, measured once: what `worker.py` serves."""
    make = {"ours": ours, "JAX by hand": jax_by_hand}[side]
    return measured(lambda: make(Work(*work), is_small), jax.block_until_ready, 0.0 if is_small else 0.7)


# -- the table ---------------------------------------------------------------------------------------------------------


def sides(torch: str | None, on_gpu: bool) -> dict[str, tuple[str, str | None]]:
    """Each side that takes part → its backend in `worker.py` and its interpreter."""
    found: dict[str, tuple[str, str | None]] = dict.fromkeys(SIDES[:2], ("accelerator", None))
    if torch or importlib.util.find_spec("torch"):
        found |= dict.fromkeys(SIDES[2 : 4 if on_gpu else 3], ("pytorch", torch))
    return found


def table(
    works: Sequence[Work], found: Mapping[str, tuple[str, str | None]], ends: float, is_small: bool
) -> Iterator[list[str]]:
    """The cells of each row and side."""
    with ExitStack() as stack:
        running: dict[str, Contender] = {}
        for work in works:
            if time.perf_counter() > ends:
                yield [work.label, "left out: the minutes are over", *[""] * 6]
                continue
            facts: dict[str, dict[str, float]] = {}
            errors: dict[str, str] = {}
            for side, worker in found.items():
                if (side, work.network) == ("JAX by hand", "mobilenet"):
                    continue
                if side not in running:
                    running[side] = stack.enter_context(Contender.worker(*worker))
                try:
                    facts[side] = running[side].load(side=side, work=work, is_small=is_small)
                except Failed as failure:
                    errors[side] = str(failure)
            ways = {side: running[side].time for side in facts}
            times = take_turns(ways, 1 if is_small else 5, seconds=0.0 if is_small else 0.2, errors=errors)
            waits, in_a_row = medians(times), {side: facts[side]["in_a_row"] for side in times}
            for side, ms in waits.items():
                ratios = [
                    f"{_to_best(row):.2f}" if side == "ours" and len(row) > 1 else "" for row in (waits, in_a_row)
                ]
                shown = (ms, in_a_row[side], facts[side]["host"])
                yield [work.label, side, *(f"{ms:.2f}" for ms in shown), f"{facts[side]['seconds']:.1f}", *ratios]
            for side, error in errors.items():
                del running[side]  # the process has ended
                yield [work.label, f"{side}: {error}", *[""] * 6]


def _to_best(times: Mapping[str, float]) -> float:
    return times["ours"] / min(ms for side, ms in times.items() if side != "ours")


# -- the operators' goldens --------------------------------------------------------------------------------------------


def goldens(ends: float, only: Sequence[str] = ()) -> tuple[int, int, list[str]]:
    """Compare values and gradients of the operators' cases with MXNet's until the time is over.

    Returns how many of how many cases were compared, and a line for each that differs.
    """
    from tests.ops.test_ladder import gradient_equals_mxnet, is_compared, value_equals_mxnet  # they take pytest
    from tests.support.walk import CASES, Walk

    rounds = [[one for one in cases if not one[1].no_mxnet] for op, cases in CASES.items() if not only or op in only]
    order = sorted(((at, *one) for cases in rounds for at, one in enumerate(cases)), key=lambda one: one[0])
    done, failures = 0, []
    for _, family, case in order:
        if time.perf_counter() > ends:
            break
        walk, done = Walk(family, case, is_whole=True), done + 1
        rungs = [gradient_equals_mxnet] if is_compared(case) else []
        for rung in (*rungs, value_equals_mxnet):
            try:
                with jax.default_matmul_precision("highest"):
                    rung(walk)
            except (AssertionError, NNVMError, RuntimeError, ValueError, TypeError) as error:
                line = next(filter(str.strip, str(error).splitlines()), type(error).__name__)
                failures.append(f"{case.id}, {rung.__name__}: {line.strip()}")
                print(failures[-1], file=sys.stderr, flush=True)
    return done, len(order), failures


def main(minutes: float = 8.0, torch: str | None = None, only: tuple[str, ...] = (), small: bool = False) -> None:
    """Print the table, and the goldens that differ."""
    began = time.perf_counter()
    device = jax.devices()[0]
    print(conditions(("torch", torch or sys.executable)), f"device: {device.device_kind}", sep="\n", flush=True)
    rows = []
    works = [work for work in WORKS if not only or any(word in work.label for word in only)]
    for row in table(works, sides(torch, device.platform == "gpu"), began + 37.5 * minutes, small):
        print(*row, sep="  ", file=sys.stderr, flush=True)
        rows.append(row)
    columns = ["work", "side", "waits ms", "in a row ms", "host ms", "first s", "waits ratio", "in a row ratio"]
    print(table_text(columns, rows, right=6), flush=True)
    if importlib.util.find_spec("pytest") is None:
        return print("goldens: not compared, this takes pytest")
    done, count, failures = goldens(began + 60 * minutes, ("FullyConnected",) if small else ())
    print(f"goldens: {len(failures)} of {done} cases differ ({count - done} left out)", *failures, sep="\n")


if __name__ == "__main__":
    run(__doc__, main)
