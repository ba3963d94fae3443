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
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.contenders import fresh, print_table
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


def main(largest: int, repeat: int) -> None:
    """Print a table for each graph."""
    sizes = [n for n in SIZES if n <= largest]
    for kind in GRAPHS:
        runs = {n: [fresh(__file__, "--one", kind, n) for _ in range(repeat)] for n in sizes}
        median = {n: {key: statistics.median(r[key] for r in runs[n]) for key in runs[n][0]} for n in sizes}
        rows = []
        for n in sizes:
            sides = (f"{median[n][key]:.0f}" for key in ("bytes_built", "bytes_peak"))
            rows.append([f"{n:,}", *(f"{median[n][op] / n * 1e6:.2f}" for op in OPERATIONS), *sides])
        if 10_000 in sizes:
            last = sizes[-1]
            flat = [median[last][op] / last / (median[10_000][op] / 10_000) for op in OPERATIONS]
            rows.append(["flat", *(f"{ratio:.2f}×" for ratio in flat), "", ""])
        print_table([f"{kind}, µs a node", *OPERATIONS, "B/node built", "B/node peak"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max", type=int, default=SIZES[-1])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("GRAPH", "N"), help="measure one graph in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]))))
    else:
        main(options.max, options.repeat)
