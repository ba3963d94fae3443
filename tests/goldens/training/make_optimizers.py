"""Make `optimizers.npz`, `large_batches.npz` and `numbers.json`: what MXNet 1.9.1's optimisers, schedulers and metrics
give the cases.

    mxnet-env/bin/python -m tests.goldens.training.make_optimizers

The first two hold for each case the parameters after each step, flat and one after the other: (steps, elements).
"""

import json
from pathlib import Path
from typing import Any

import mxnet as mx  # type: ignore[import-not-found]
import numpy as np

from tests.lowering.training import cases

HERE = Path(__file__).parent


def optimizer(name: str, params: dict[str, Any], names: list[str]) -> Any:
    """MXNet's optimiser of the parameters, as Module makes it."""
    variables = [mx.sym.Variable(n, **cases.MULTIPLIERS.get(n, {})) for n in names]
    options = dict(params)
    lr_mult, wd_mult = options.pop("lr_mult", {}), options.pop("wd_mult", {})
    if "lr_scheduler" in options:
        scheduler, arguments = options["lr_scheduler"]
        options["lr_scheduler"] = getattr(mx.lr_scheduler, scheduler)(**arguments)
    made = mx.optimizer.create(name, sym=mx.sym.Group(variables), param_idx2name=dict(enumerate(names)), **options)
    if lr_mult:
        made.set_lr_mult(lr_mult)
    if wd_mult:
        made.set_wd_mult(wd_mult)
    return made


def run(case: str) -> np.ndarray:
    """The parameters after each step."""
    name, params = cases.OPTIMIZERS[case]
    names = cases.names_of(case)
    # MXNet's Nadam multiplies one momentum schedule for all parameters, so each gets an optimiser of its own.
    groups = [[n] for n in names] if name == "nadam" else [names]
    updaters = [(group, mx.optimizer.get_updater(optimizer(name, params, group))) for group in groups]
    weights = {n: mx.nd.array(value) for n, value in cases.weights().items()}
    rows = []
    for step in range(cases.STEPS):
        grads = {n: mx.nd.array(value) for n, value in cases.gradients(step).items()}
        for group, updater in updaters:
            indices = list(range(len(group)))
            if updater.aggregate_updates:
                updater(indices, [grads[n] for n in group], [weights[n] for n in group])
            else:
                for i in indices:
                    updater(i, grads[group[i]], weights[group[i]])
        rows.append(np.concatenate([weights[n].asnumpy().ravel() for n in names]))
    return np.stack(rows)


def large_batches(case: str) -> np.ndarray:
    """The parameters after each of LBSGD's steps."""
    names, dtype = list(cases.SHAPES), "float16" if case == "half" else "float32"
    updater = mx.optimizer.get_updater(optimizer("lbsgd", cases.LARGE_BATCHES[case], names))
    weights = {n: mx.nd.array(value, dtype=dtype) for n, value in cases.weights().items()}
    rows = []
    for step in range(cases.LARGE_STEPS):
        for i, n in enumerate(names):
            updater(i, mx.nd.array(cases.gradients(step)[n], dtype=dtype), weights[n])
        rows.append(np.concatenate([weights[n].asnumpy().ravel() for n in names]))
    return np.stack(rows)


def schedule(case: str) -> list[float]:
    """The learning rates of updates 1, 2, 3, …"""
    name, arguments = cases.SCHEDULES[case]
    made = getattr(mx.lr_scheduler, name)(**arguments)
    return [float(made(update)) for update in range(1, cases.UPDATES + 1)]


def metric(case: str) -> float:
    """The value over all batches."""
    name, arguments, kind = cases.METRICS[case]
    made = mx.metric.create(name, **arguments)
    for label, output in cases.metric_batches(kind):
        made.update([mx.nd.array(label)], [mx.nd.array(output)])
    return float(made.get()[1])


def main() -> None:
    """Write the files."""
    np.savez_compressed(HERE / "optimizers.npz", allow_pickle=False, **{case: run(case) for case in cases.OPTIMIZERS})
    large = {case: large_batches(case) for case in cases.LARGE_BATCHES}
    np.savez_compressed(HERE / "large_batches.npz", allow_pickle=False, **large)
    numbers = {
        "schedules": {case: schedule(case) for case in cases.SCHEDULES},
        "metrics": {case: metric(case) for case in cases.METRICS},
    }
    (HERE / "numbers.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
