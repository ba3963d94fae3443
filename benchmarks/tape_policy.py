"""What the numbers of `lowering/mx/tape/policy.py` rest on: how long steps take with one number and with another.

    python benchmarks/tape_policy.py [--rounds 60] [--works 'tapes 8' …]

Each line is a work and a number of the policy, set to each value in a process of its own: the first step, the sum of
the first twenty, and the median of those that follow.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

WORKS: dict[str, tuple[str, list[Any]]] = {
    "chain 8": ("LONGEST", [0, 64]),
    "chain 32": ("LONGEST", [0, 64]),
    "chain 64": ("LONGEST", [0, 64]),
    "blocks 2": ("MOST_WAITING", [0, 16]),
    "blocks 8": ("MOST_WAITING", [0, 16]),
    "blocks 16": ("MOST_WAITING", [0, 16]),
    "update": ("UPDATES", [0, 8]),
    "tapes 1": ("MOST_TAPES", [0, 1, 4]),
    "tapes 2": ("MOST_TAPES", [0, 1, 4]),
    "tapes 8": ("MOST_TAPES", [0, 1, 4]),
    "draws 3000": ("SIZES_OF_DRAWS", [(), (4096, 65536)]),
    "draws 60000": ("SIZES_OF_DRAWS", [(), (4096, 65536)]),
}
"""Work → the number of the policy, and the values that it is set to."""


def step_of(mx: Any, work: str) -> Callable[[], Any]:
    """One step of a work."""
    nd, gluon = mx.nd, mx.gluon
    kind, _, count = work.partition(" ")
    x = nd.ones((4, 8))
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(8, activation="tanh", in_units=8))
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    weight = net[0].weight
    if kind == "chain":
        net.hybridize(active=False)

    def trained(calls: int) -> None:
        with mx.autograd.record():
            y = x
            for _ in range(calls):
                y = nd.tanh(y) if kind == "chain" else net(y)
            y = net(y) if kind == "chain" else y
        y.backward()

    steps = iter(range(10**9))

    def step() -> Any:
        if kind == "draws":
            return nd.random.uniform(shape=(int(count) + next(steps),)).value
        trained(1 + next(steps) % int(count) if kind == "tapes" else int(count or 1))
        if kind == "update":
            trainer.step(4)
            return weight.data().value
        return weight.grad().value

    return step


def measure(work: str, value: Any, rounds: int) -> str:
    """The first step, the sum of the first twenty and the median of the others, in milliseconds."""
    from lowering import mx
    from lowering.mx.tape import policy

    setattr(policy, WORKS[work][0], value)
    step, seconds = step_of(mx, work), []
    for _ in range(20 + rounds):
        start = time.perf_counter()
        step().block_until_ready()
        seconds.append(1e3 * (time.perf_counter() - start))
    return f"{seconds[0]:8.1f} {sum(seconds[:20]):8.1f} {statistics.median(seconds[20:]):8.3f}"


def main() -> None:
    """Measure all works."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--works", nargs="*", default=[*WORKS])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(measure(args.one[0], ast.literal_eval(args.one[1]), args.rounds))
        return
    print(f"{'work':11} {'number':15} {'value':>13}    first   twenty   median (ms)")
    for work in args.works:
        name, values = WORKS[work]
        for value in values:
            command = [sys.executable, __file__, "--rounds", str(args.rounds), "--one", work, str(value)]
            line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip("\n")
            print(f"{work:11} {name:15} {value!s:>13} {line}", flush=True)


if __name__ == "__main__":
    main()
