"""A table of a network's layers: operator, output shape, parameters, MACs and FLOPs; and the totals.

Needs no parameters; with them, their shapes decide what `--shape` leaves open. `--stages` prints the pipeline instead:
what is done to the graph before it is lowered: for inference, for predictions with parameters that do not change, and
for training. `--without` leaves stages out.
"""

from __future__ import annotations

import argparse

from symjax_nnvm.cli.console import note, print_json, print_table, show
from symjax_nnvm.cli.model_argument import add_model, add_shapes, all_shapes, of_options
from symjax_nnvm.inspect.roles import data_inputs, learned_variables
from symjax_nnvm.inspect.summary import summarize
from symjax_nnvm.pipeline import Options, Pipeline, without
from symjax_nnvm.symbol.symbol import Symbol


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, `--shape`, `--stages` and `--without`."""
    add_model(parser)
    add_shapes(parser)
    parser.add_argument("--stages", action="store_true", help="print what each stage of the pipeline changes")
    parser.add_argument("--without", metavar="STAGE", action="append", default=[], help="leave a stage out; repeatable")


def run(options: argparse.Namespace) -> int:
    """Print the summary."""
    model = of_options(options)
    symbol = model.symbol()
    if options.stages or options.without:
        with without(*options.without):
            return _stages(symbol, options.json)
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


def _stages(symbol: Symbol, as_json: bool) -> int:
    pipeline = Pipeline(symbol.outputs)
    names = {node.name for node in learned_variables(symbol)}
    learned = tuple(name for name in symbol.list_arguments() if name in names)
    plans = {
        "inference": pipeline.plan(Options()),
        "prediction": pipeline.plan(Options(constants=frozenset(symbol.list_inputs()) - data_inputs(symbol))),
        "training": pipeline.plan(Options(is_train=True, wrt=learned)),
    }
    if as_json:
        print_json({purpose: plan.to_json() for purpose, plan in plans.items()})
        return 0
    for purpose, plan in plans.items():
        show(f"{purpose}:")
        print_table(plan.columns, plan.rows())
    return 0
