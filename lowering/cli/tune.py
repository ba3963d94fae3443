"""Measure how fast each algorithm computes a network's convolutions on this machine, for a table of your own.

The fastest are used from then on, in other processes, too. Every convolution takes some seconds.
"""

from __future__ import annotations

import argparse

import lowering
from lowering.convolutions.timings_table import Measured, user_table
from symjax_nnvm.cli.argument_types import whole
from symjax_nnvm.cli.console import note, print_json, print_table
from symjax_nnvm.cli.model_argument import add_model, add_shapes, all_shapes, of_options
from symjax_nnvm.errors import printable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: MODEL, shapes, the directions and the time limit."""
    add_model(parser)
    add_shapes(parser)
    parser.add_argument("--train", action="store_true", help="both gradients of each convolution, too")
    parser.add_argument(
        "--seconds", type=whole(1, 600), default=1, metavar="N", help="seconds for each convolution; default 1"
    )


def run(options: argparse.Namespace) -> int:
    """Measure the algorithms, keep the table, and print the measurements."""
    if options.own_process:
        lowering.keep_memory()
    model = of_options(options)
    symbol = model.symbol()
    shapes = all_shapes(options, symbol, *model.params(symbol))
    table = lowering.tune(symbol, shapes, is_train=options.train, seconds=options.seconds, progress=not options.json)
    path = user_table(table.platform)
    if options.json:
        print_json({"table": str(path), "rows": [_words(row) for row in table.rows]})
        return 0
    columns = ("direction", "batch", "size", "channels", "filters", "window", "fastest", "ms", "XLA ms")
    print_table(columns, [tuple(map(str, _words(row).values())) for row in table.rows])
    note(f"{len(table.rows)} convolutions in {printable(str(path))}")
    return 0


def _words(row: Measured) -> dict[str, object]:
    g, times = row.geometry, {**row.milliseconds, **row.constant}
    fastest = min(times, key=times.__getitem__)
    return {
        "direction": row.direction,
        "batch": g.batch,
        "size": "×".join(map(str, g.size)),
        "channels": g.channels,
        "filters": g.filters,
        "window": "×".join(map(str, g.kernel))
        + (f", stride {'×'.join(map(str, g.stride))}" if max(g.stride) > 1 else ""),
        "fastest": fastest,
        "ms": times[fastest],
        "xla_ms": row.milliseconds.get("xla"),
    }
