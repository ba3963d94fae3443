"""What keeping freed memory gains a training run: new pages, processor time and time of a step, by how it is asked for.

    python benchmarks/keep_memory.py [--steps 30] [--rounds 3]

A network of six convolutions over 16 images of 3 × 112 × 112, SGD. Each way runs in a process of its own, the ways in
turn; medians over the rounds. New pages are exact, whatever else the machine does.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import fresh, options_of, print_table

WAYS = {
    "nothing": ("", {}),
    "fit(keep_memory=True)": ("fit", {}),
    "the same, MALLOC_ARENA_MAX=1": ("fit", {"MALLOC_ARENA_MAX": "1"}),
    "lowering.keep_memory() first": ("first", {}),
}
"""Way → (which of both the process calls, what its environment has besides)."""


def train(way: str, steps: int) -> dict[str, float]:
    """Pages, milliseconds of the processor and of the clock in a step, after ten that warm up."""
    import resource
    import time

    import numpy as np

    import lowering
    from symjax_nnvm import symbol as sym

    if way == "first":
        lowering.keep_memory()
    x = sym.Variable("data")
    for i in range(6):
        x = sym.Convolution(x, kernel=(3, 3), pad=(1, 1), num_filter=32, no_bias=True, name=f"conv{i}")
        x = sym.Activation(sym.BatchNorm(x, name=f"norm{i}"), act_type="relu")
    pooled = sym.Pooling(x, global_pool=True, pool_type="avg", kernel=(1, 1))
    trainer = lowering.Trainer(sym.SoftmaxOutput(sym.FullyConnected(pooled, num_hidden=10), name="softmax"), "sgd")
    batch = {"data": np.ones((16, 3, 112, 112), np.float32), "softmax_label": np.zeros(16, np.float32)}
    trainer.init(0, data=batch["data"].shape)

    class Clock:
        """What the process has used after each step."""

        def __init__(self) -> None:
            self.rows: list[tuple[float, float, float]] = []

        def on_step_end(self, trainer: lowering.Trainer, event: object) -> None:
            """Wait for the step, and look."""
            np.asarray(trainer.require_state().step)
            used = resource.getrusage(resource.RUSAGE_SELF)
            self.rows.append((used.ru_minflt, (used.ru_utime + used.ru_stime) * 1e3, time.perf_counter() * 1e3))

    clock = Clock()
    trainer.fit([batch] * (steps + 10), 1, progress=False, callbacks=[clock], keep_memory=way == "fit")
    first, last = clock.rows[9], clock.rows[-1]
    pages, processor, passed = ((after - before) / steps for before, after in zip(first, last, strict=True))
    return {"pages": pages, "processor": processor, "passed": passed}


def main() -> None:
    """Print the table."""
    parser = options_of(__doc__, 3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--one", metavar="WAY", help="measure one way in this process")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(train(options.one, options.steps)))
        return
    steps = ("--steps", options.steps)
    rounds: list[dict[str, dict[str, float]]] = [
        {name: fresh(__file__, "--one", way, *steps, environment=env) for name, (way, env) in WAYS.items()}
        for _ in range(options.rounds)
    ]
    rows = [
        [name, *(f"{statistics.median(each[name][key] for each in rounds):.0f}" for key in rounds[0][name])]
        for name in WAYS
    ]
    print_table(["a training step", "new pages", "processor ms", "ms"], rows)


if __name__ == "__main__":
    main()
