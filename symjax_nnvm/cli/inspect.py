"""A table of a network's layers: operator, output shape, parameters, MACs and FLOPs; and the totals.

Needs no parameters; with them, their shapes decide what `--shape` leaves open.
"""

from __future__ import annotations

import argparse

from symjax_nnvm.cli.console import note, print_json, print_table, show
from symjax_nnvm.cli.model import add_model, add_shapes, all_shapes, of_options
from symjax_nnvm.summary import summarize


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL and `--shape`."""
    add_model(parser)
    add_shapes(parser)


def run(options: argparse.Namespace) -> int:
    """Print the summary."""
    model = of_options(options)
    symbol = model.symbol()
    args, aux = model.params(symbol)
    if model.params_path is not None:
        note(f"parameters: {model.params_path}")
    summary = summarize(symbol, all_shapes(options, symbol, args, aux), args or None)
    if options.json:
        print_json(summary.to_json())
        return 0
    print_table(summary.columns, summary.rows(), right=3)
    for line in summary.totals():
        show(line)
    return 0
