"""Prove the gradients of a model: MXGradient's against JAX's and against finite differences, in float64.

A small model's gradients are compared one by one; a large one's along random directions through all parameters.
Inputs that are not given are random. `verify MODEL.onnx --against MODEL` compares what an ONNX file computes in
onnxruntime with what the model does here.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

import jax
import numpy as np

import lowering
from lowering.cli import verify_onnx
from lowering.cli.model_inputs import InputError, add_inputs, gather
from lowering.verify.gradient_check import GradientsDisagreeError
from symjax_nnvm.cli.argument_types import text_of, whole
from symjax_nnvm.cli.console import note, print_json, show, steps, working
from symjax_nnvm.cli.model_argument import of_options
from symjax_nnvm.errors import close_or_all
from symjax_nnvm.inspect.roles import data_inputs

_LARGE = 20_000
"""Elements differentiated from which on a model is large."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: MODEL, inputs, and the thoroughness."""
    add_inputs(parser)
    parser.add_argument(
        "--wrt", metavar="NAMES", help="arguments, separated by commas; default all that are not labels"
    )
    parser.add_argument(
        "--against", type=text_of("model"), metavar="MODEL", help="the model that the ONNX file was made of"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--full", action="store_true", help="one by one, however large the model is")
    how.add_argument(
        "--directions", type=whole(1, 10_000), metavar="N", help="along N random directions, however small it is"
    )
    parser.add_argument("--inference", action="store_true", help="the network at inference, not in training")
    parser.add_argument("--no-finite-differences", action="store_true", help="compare with JAX's gradient only")


def run(options: argparse.Namespace) -> int:
    """Print the table; 1 when gradients disagree."""
    if options.own_process:
        lowering.keep_memory()
    if options.against is not None:
        return verify_onnx.run(options)
    model = of_options(options)
    symbol = model.symbol()
    inputs = data_inputs(symbol, dict(options.shape), model.params(symbol)[0] or None)
    named = {text.partition("=")[0] for text in options.inputs if "=" in text}
    if all("=" in text for text in options.inputs):
        options.inputs += [f"{n}=random" for n in sorted(inputs - named) if not n.endswith("label")]
    args, aux = gather(options, model, symbol, proof=True)
    floating = [name for name, array in args.items() if np.issubdtype(array.dtype, np.floating)]
    trained = [name for name in floating if not name.endswith("label")]
    wrt = trained if options.wrt is None else _named(options.wrt, floating)
    elements = sum(args[name].size for name in wrt if name in args)
    common = {
        "wrt": wrt,
        "is_train": not options.inference,
        "finite_differences": not options.no_finite_differences,
        "seed": options.seed,
    }
    key = jax.random.key(options.seed)
    code = 0
    try:
        if options.directions or (elements > _LARGE and not options.full):
            count = options.directions or 4
            note(f"{elements:,} elements: along {count} random directions (--full compares one by one)")
            report = lowering.check_projection(
                symbol,
                args,
                aux,
                key,
                directions=count,
                watch=lambda directions: steps("directions", directions, count),
                **common,
            )
        else:
            with working("comparing gradients"):
                report = lowering.check_gradients(symbol, args, aux, key, **common)
    except GradientsDisagreeError as error:
        report, code = error.report, 1
    if options.json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        show(str(report))
    return code


def _named(text: str, floating: list[str]) -> list[str]:
    """Return the arguments of `--wrt`. Raises InputError for one that has no gradient."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in floating:
            fix = close_or_all(name, floating, "There are")
            raise InputError(f"--wrt: the model has no argument {name!r} to differentiate by. {fix}")
    return names
