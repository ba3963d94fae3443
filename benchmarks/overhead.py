"""What a call costs above the compiled function: a network of 160 small parameters, forward and backward.

    python benchmarks/overhead.py [--rounds 300] [--mxnet PYTHON]

Each way of calling is timed until its results are ready, in rounds in which all of them run, in an order that turns.
The bare function of the executor is `jax.jit(lowering.grad_fn(net))`, called with dicts of arrays; that of the trainer,
whose step also updates the parameters, is its own `step_fn`. Besides the medians there are lower deciles, which other
processes disturb less; what a way costs above its bare function is the difference of those. --mxnet: the Python of an
environment with MXNet 1.9.1; its executor then runs the same network in a process of its own, after ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.cores import who, with_all_cores
from benchmarks.overhead_case import BATCH, WIDTH, build, values

Calls = dict[str, Callable[[], Any]]


def calls() -> Calls:
    """The ways to run one forward and backward, each returning what it computes."""
    import jax

    import lowering
    from symjax_nnvm import symbol as sym

    lowering.keep_memory()
    net = build(sym)
    executor = lowering.simple_bind(net, data=(BATCH, WIDTH))
    arrays = values({name: array.shape for name, array in executor.arg_dict.items() if array is not None})
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

    ways: Calls = {
        "bare jitted function": lambda: bare(args),
        "Executor.forward + backward": two_calls,
        "Executor.forward_backward": one_call,
    }
    return ways | _training_steps(net, arrays)


def _training_steps(net: Any, arrays: dict[str, Any]) -> Calls:
    """The trainer's step, bare and as a method. It does more than the others: the optimiser's update is part of it."""
    import jax

    import lowering

    trainer = lowering.Trainer(net, "sgd", {"learning_rate": 0.01})
    names = ("data", "softmax_label")
    trainer.init(
        0,
        args={name: value for name, value in arrays.items() if name not in names},
        **{name: arrays[name].shape for name in names},
    )
    batch = {name: jax.device_put(arrays[name]) for name in names}

    bare_state = jax.tree.map(jax.numpy.copy, trainer.require_state())

    def bare() -> Any:
        nonlocal bare_state
        bare_state, _ = trainer.step_fn(bare_state, batch)
        return bare_state.params

    def step() -> Any:
        trainer.step(batch)
        return trainer.require_state().params

    return {"bare step function": bare, "Trainer.step": step}


def measure(ways: Calls, rounds: int) -> dict[str, list[float]]:
    """µs of every call, by way."""
    import jax

    times: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for i in range(rounds + 20):
        turn = i % len(names)
        for name in names[turn:] + names[:turn]:
            start = time.perf_counter()
            jax.block_until_ready(ways[name]())
            taken = (time.perf_counter() - start) * 1e6
            if i >= 20:  # the first ones compile and warm up
                times[name].append(taken)
    return times


def of_mxnet(python: str, rounds: int) -> list[float]:
    """MXNet's µs of every call, from its own process."""
    script = Path(__file__).parent / "overhead_mxnet.py"
    done = subprocess.run(
        [python, str(script), str(rounds)], env=with_all_cores(), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--mxnet", help="Python of an environment with MXNet 1.9.1")
    options = parser.parse_args()
    times = measure(calls(), options.rounds)
    if options.mxnet:
        times["MXNet 1.9.1, forward + backward"] = of_mxnet(options.mxnet, options.rounds)
    deciles = {name: statistics.quantiles(taken, n=10)[0] for name, taken in times.items()}
    print(who([("mxnet", options.mxnet), ("jaxlib", sys.executable)]))
    print(f"{'160 parameters, forward and backward':38} {'median µs':>10} {'decile µs':>10} {'above bare':>11}")
    for name, taken in times.items():
        bare = deciles["bare step function" if "step" in name else "bare jitted function"]
        print(f"{name:38} {statistics.median(taken):10.0f} {deciles[name]:10.0f} {deciles[name] - bare:11.0f}")


if __name__ == "__main__":
    main()
