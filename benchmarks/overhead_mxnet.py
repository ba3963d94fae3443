"""MXNet's side of `overhead.py`, run by MXNet's environment: µs of each of many forward and backward calls."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import mxnet as mx  # type: ignore[import-not-found]

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.overhead_case import BATCH, WIDTH, build, values


def main(rounds: int) -> None:
    """Print the numbers as JSON, on the last line."""
    executor = build(mx.sym).simple_bind(mx.cpu(), data=(BATCH, WIDTH))
    shapes = {name: array.shape for name, array in executor.arg_dict.items()}
    executor.copy_params_from({name: mx.nd.array(value) for name, value in values(shapes).items()})
    times = []
    for _ in range(rounds + 20):
        mx.nd.waitall()
        start = time.perf_counter()
        executor.forward(is_train=True)
        executor.backward()
        mx.nd.waitall()
        times.append((time.perf_counter() - start) * 1e6)
    print(json.dumps(times[20:]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
