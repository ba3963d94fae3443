"""MXNet's side of `gradients.py`, run by MXNet's environment: the median ms of one forward and backward."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.gradient_cases import CASES


def main(name: str, rounds: int) -> None:
    """Print the number as JSON, on the last line."""
    (case,) = (case for case in CASES if case.name == name)
    symbol = case.build(mx.sym)
    states = set(symbol.list_auxiliary_states())
    arrays = {key: mx.nd.array(value) for key, value in case.values().items()}
    args = {key: value for key, value in arrays.items() if key not in states}
    grads = {key: mx.nd.zeros(args[key].shape) for key in case.wrt}
    executor = symbol.bind(
        mx.cpu(),
        args,
        args_grad=grads,
        grad_req={key: "write" if key in grads else "null" for key in args},
        aux_states={key: arrays[key] for key in states},
    )
    heads = [mx.nd.array(case.head(output.shape)) for output in executor.forward(is_train=True)]
    times = []
    for _ in range(rounds + 2):
        mx.nd.waitall()
        start = time.perf_counter()
        executor.forward(is_train=True)
        executor.backward(heads)
        mx.nd.waitall()
        times.append((time.perf_counter() - start) * 1e3)
    print(json.dumps(statistics.median(times[2:])))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
