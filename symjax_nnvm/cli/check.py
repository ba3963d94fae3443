"""Will the model run here, and as in MXNet? Everything in the way, at once, before anything is traced.

Reads what cannot even be loaded: unknown operators and parameters are reported, not raised. Exit code 1 when something
keeps the model from running.
"""

from __future__ import annotations

import argparse

from symjax_nnvm.check import check
from symjax_nnvm.cli.console import print_json, show
from symjax_nnvm.cli.model_argument import add_model, add_shapes, of_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add MODEL and `--shape`."""
    add_model(parser)
    add_shapes(parser, named=True)
    parser.add_argument("--target", choices=("jax", "onnx"), default="jax", help="run here, or be an ONNX file")


def run(options: argparse.Namespace) -> int:
    """Print the report."""
    model = of_options(options)
    arrays = model.arrays()
    report = check(model.source, shapes=dict(options.shape) or None, params=arrays or None, target=options.target)
    if options.json:
        print_json(report.to_json())
    else:
        show(str(report))
    return int(not report.ok)
