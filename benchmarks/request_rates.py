"""Requests a second of single samples, when each core has a request of its own to compute.

    python benchmarks/request_rates.py MODELS [--onnxruntime PYTHON] [--only mobilenet,resnet50] [--rounds 7]

MODELS is the folder of `zoo.py`. As many threads as there are cores send requests, each one after the other. The
contenders, each a process of its own, take turns as in `contenders.py`: a Predictor whose calls share all cores; one
with `one_core=True`; and onnxruntime's session with one thread, called by all threads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import (
    Contender,
    Loaded,
    cores,
    medians,
    options_of,
    print_table,
    ratio,
    serve,
    take_turns,
)
from benchmarks.zoo_models import Row, chosen, files, inputs

EACH = 8
"""Requests of a thread in a call."""


def _ours(path: str, one_core: bool) -> Callable[[Mapping[str, np.ndarray]], Any]:
    import jax

    import lowering

    lowering.keep_memory()
    predict = lowering.Predictor.load(path, 0, one_core=one_core)
    return lambda sample: jax.block_until_ready(predict(**sample))


def _onnxruntime(path: str) -> Callable[[Mapping[str, np.ndarray]], Any]:
    import onnxruntime  # type: ignore[import-not-found]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(f"{path}-b1.onnx", options, providers=["CPUExecutionProvider"])
    return lambda sample: session.run(None, sample)


def load(way: str, name: str, folder: str) -> Loaded:
    """Load a network; a call of it is `EACH` requests of each thread."""
    row = Row(name, 1)
    path, sample = files(folder, row), inputs(row, ())
    predict = _onnxruntime(path) if way == "onnxruntime" else _ours(path, way == "one core")

    def requests() -> None:
        for _ in range(EACH):
            predict(sample)

    def call() -> None:
        threads = [Thread(target=requests) for _ in range(cores())]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    predict(sample)
    return Loaded(call)


def _rows(options: argparse.Namespace, interpreters: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield a network's requests a second, of each contender, and the ratios."""
    for row in chosen(options.only, training=False):
        if row.batch > 1 or not row.network.onnx:
            continue
        with ExitStack() as stack:
            ways: dict[str, Callable[[float], list[float]]] = {}
            for way, python in interpreters.items():
                child = stack.enter_context(Contender([python, __file__]))
                child.load(way=way, name=row.name, folder=str(options.models))
                ways[way] = child.time
            times = take_turns(ways, options.rounds, seconds=0.5, pause=0.3)
        others = [way for way in interpreters if way != "one core"]
        figures = [f"{1e3 * EACH * cores() / ms:.1f}" for ms in medians(times).values()]
        yield [row.name, *figures, *(f"{ratio(times, other, 'one core'):.2f}" for other in others)]


def main() -> None:
    """Print the table."""
    parser = options_of(__doc__, rounds=7)
    parser.add_argument("models", metavar="MODELS", type=Path, help="folder of networks that zoo.py made")
    parser.add_argument("--onnxruntime", metavar="PYTHON", help="of an environment with onnxruntime")
    parser.add_argument("--only", help="names of networks, with commas between")
    options = parser.parse_args()
    interpreters = {"all cores": sys.executable, "one core": sys.executable}
    if options.onnxruntime:
        interpreters["onnxruntime"] = options.onnxruntime
    ratios = [f"one core of {way}" for way in interpreters if way != "one core"]
    rows = _rows(options, interpreters)
    print_table(["requests a second", *interpreters, *ratios], rows, ("onnxruntime", options.onnxruntime))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        serve(load)
    else:
        main()
