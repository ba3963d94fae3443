"""Time and memory per node of every graph operation, from 1,000 to 1,000,000 nodes.

    python benchmarks/graph_scale.py [--max 1000000] [--repeat 3]

Two graphs: a chain of `relu`, and a residual DAG (`x + relu(x)`). Each measurement runs in a process of its own; times
are medians over the repeats, in µs a node. `flat` is the cost at the largest size over that at 10,000 nodes.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from symjax_nnvm import symbol as sym
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.pass_registry import apply_pass

SIZES = (1_000, 10_000, 100_000, 1_000_000)
OPERATIONS = ("build", "copy", "index", "infer", "gradient", "save", "load")


def chain(n: int) -> sym.Symbol:
    """A chain of n relu nodes."""
    x, relu = sym.Variable("x"), sym.relu
    for _ in range(n):
        x = relu(x)
    return x


def residual(n: int) -> sym.Symbol:
    """A residual DAG of n nodes."""
    x, relu, add = sym.Variable("x"), sym.relu, sym.elemwise_add
    for _ in range(n // 2):
        x = add(x, relu(x))
    return x


GRAPHS: dict[str, Callable[[int], sym.Symbol]] = {"chain": chain, "residual": residual}


def timed(function: Callable[[], object]) -> tuple[float, object]:
    """(seconds, result) of a call."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def measure(kind: str, n: int) -> dict[str, float]:
    """Seconds per operation, and bytes per node of building and at the peak."""
    seconds: dict[str, float] = {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds["build"], symbol = timed(lambda: GRAPHS[kind](n))
    assert isinstance(symbol, sym.Symbol)
    built = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds["copy"], _ = timed(symbol.copy)
    seconds["index"], _ = timed(Graph(symbol.outputs).indexed_graph)
    seconds["infer"], shapes = timed(lambda: symbol.infer_shape(x=(2, 3)))
    assert isinstance(shapes, tuple)
    assert shapes[1] == [(2, 3)]
    seconds["gradient"], _ = timed(lambda: symbol.gradient("x"))
    seconds["save"], text = timed(symbol.tojson)
    assert isinstance(text, str)
    seconds["load"], loaded = timed(lambda: sym.load_json(text))
    assert isinstance(loaded, sym.Symbol)
    assert loaded.list_outputs() == symbol.list_outputs()
    assert apply_pass(Graph(loaded.outputs), "SaveJSON").attrs["json"].count('"op"') == n + 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return seconds | {"bytes_built": (built - before) * 1024 / n, "bytes_peak": (peak - before) * 1024 / n}


def in_new_process(kind: str, n: int) -> dict[str, float]:
    """`measure` in a fresh interpreter."""
    command = [sys.executable, __file__, "--one", kind, str(n)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(largest: int, repeat: int) -> None:
    """Print the table."""
    sizes = [n for n in SIZES if n <= largest]
    for kind in GRAPHS:
        runs = {n: [in_new_process(kind, n) for _ in range(repeat)] for n in sizes}
        median = {n: {key: statistics.median(r[key] for r in runs[n]) for key in runs[n][0]} for n in sizes}
        print(f"\n{kind}: µs a node (median of {repeat})")
        print(
            "nodes".rjust(10)
            + "".join(op.rjust(10) for op in OPERATIONS)
            + "B/node built".rjust(14)
            + "B/node peak".rjust(13)
        )
        for n in sizes:
            cells = "".join(f"{median[n][op] / n * 1e6:10.2f}" for op in OPERATIONS)
            print(f"{n:10,}{cells}{median[n]['bytes_built']:14.0f}{median[n]['bytes_peak']:13.0f}", flush=True)
        if 10_000 in sizes:
            ratios = [median[sizes[-1]][op] / sizes[-1] / (median[10_000][op] / 10_000) for op in OPERATIONS]
            print("flat".rjust(10) + "".join(f"{ratio:9.2f}×" for ratio in ratios))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max", type=int, default=SIZES[-1])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("GRAPH", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
    else:
        main(options.max, options.repeat)
