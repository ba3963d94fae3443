"""What a call costs above the compiled function: a network of 160 small parameters, forward and backward.

    python benchmarks/overhead.py [--rounds 300] [--mxnet PYTHON]

Each way of calling is timed until its results are ready; all take turns. The bare function of the executor is
`jax.jit(lowering.grad_fn(net))`, called with dicts of arrays; that of the trainer, whose step also updates the
parameters, is its own `step_fn`. Besides the medians there are lower deciles, which other processes disturb less; what
a way costs above its bare function is the difference of those. --mxnet: the Python of an environment with MXNet 1.9.1;
its executor then runs the same network in a process of its own.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax

import lowering
from benchmarks.contenders import Contender, in_process, print_table, run, take_turns
from benchmarks.networks import SMALL
from symjax_nnvm import symbol as sym


def calls() -> dict[str, Callable[[], Any]]:
    """The ways to run one forward and backward, each returning what it computes."""
    lowering.keep_memory()
    net = SMALL.build(sym)
    executor = lowering.simple_bind(net, data=SMALL.shapes["data"])
    arrays, _ = SMALL.values(net)
    executor.copy_params_from(arrays)
    args = {name: jax.device_put(value) for name, value in arrays.items()}
    data = {name: args[name] for name in ("data", "softmax_label")}
    bare = jax.jit(lowering.grad_fn(net, list(args)))

    def two_calls() -> Any:
        executor.forward(is_train=True, **data)
        executor.backward()
        return executor.grad_dict["fc0_weight"]

    def one_call() -> Any:
        executor.forward_backward(**data)
        return executor.grad_dict["fc0_weight"]

    trainer = lowering.Trainer(net, "sgd", {"learning_rate": 0.01})
    parameters = {name: value for name, value in arrays.items() if name not in data}
    trainer.init(0, args=parameters, **{name: array.shape for name, array in data.items()})
    bare_state = jax.tree.map(jax.numpy.copy, trainer.require_state())

    def bare_step() -> Any:
        nonlocal bare_state
        bare_state, _ = trainer.step_fn(bare_state, data)
        return bare_state.params

    def step() -> Any:
        trainer.step(data)
        return trainer.require_state().params

    return {
        "bare jitted function": lambda: bare(args),
        "Executor.forward + backward": two_calls,
        "Executor.forward_backward": one_call,
        "bare step function": bare_step,
        "Trainer.step": step,
    }


def main(rounds: int = 300, mxnet: str | None = None) -> None:
    """Print the table."""
    ways = {name: in_process(lambda call=call: jax.block_until_ready(call())) for name, call in calls().items()}
    with ExitStack() as stack:
        if mxnet:
            theirs = stack.enter_context(Contender.worker("case", mxnet))
            theirs.load(cells=["small", "gradient"])
            ways["MXNet 1.9.1, forward + backward"] = theirs.time
        with lowering.effort("full"):  # as calls run after the first
            times = take_turns(ways, rounds, seconds=0.0)
    deciles = {name: statistics.quantiles(taken, n=10)[0] * 1e3 for name, taken in times.items()}
    rows = []
    for name, taken in times.items():
        above = deciles[name] - deciles["bare step function" if "step" in name else "bare jitted function"]
        rows.append([name, f"{statistics.median(taken) * 1e3:.0f}", f"{deciles[name]:.0f}", f"{above:.0f}"])
    print_table(
        ["160 parameters, forward and backward", "median µs", "decile µs", "above bare"], rows, ("mxnet", mxnet)
    )


if __name__ == "__main__":
    run(__doc__, main)
