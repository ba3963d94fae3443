"""The differences between two models: nodes, their connections, and the arrays. Exit code 1 when anything does.

Nodes are matched by name; parameters count by value, not by spelling.
"""

from __future__ import annotations

import argparse

from symjax_nnvm.cli.argument_types import file_path, text_of, tolerance
from symjax_nnvm.cli.console import print_json, print_table, show, steps
from symjax_nnvm.errors import printable
from symjax_nnvm.inspect.compare import ParamsDifference, SymbolDifference, compare_params, compare_symbols
from symjax_nnvm.mxnet.model_files import ModelFiles
from symjax_nnvm.onnx import find_any_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the two models, and how close is equal."""
    for name in ("a", "b"):
        parser.add_argument(name, type=text_of("model"), metavar=name.upper(), help="a MODEL")
    parser.add_argument("--params-a", type=file_path, metavar="FILE", help="parameters of A")
    parser.add_argument("--params-b", type=file_path, metavar="FILE", help="parameters of B")
    parser.add_argument("--rtol", type=tolerance, default=0.0, help="largest relative difference of equal elements")
    parser.add_argument("--atol", type=tolerance, default=0.0, help="largest absolute difference of equal elements")
    parser.add_argument("--structure", action="store_true", help="compare the networks only, not the arrays")


def run(options: argparse.Namespace) -> int:
    """Print the differences."""
    models = [find_any_model(options.a, options.params_a), find_any_model(options.b, options.params_b)]
    a, b = (model.symbol() for model in models)
    structure = compare_symbols(a, b)
    params = None
    if not options.structure and any(model.params_path for model in models):
        first, second = ({**args, **aux} for args, aux in (models[0].params(a), models[1].params(b)))
        params = compare_params(
            first,
            second,
            rtol=options.rtol,
            atol=options.atol,
            watch=lambda names: steps("comparing arrays", names, len(names)),
        )
    if options.json:
        print_json({"structure": structure.to_json(), "params": params and params.to_json()})
    else:
        _print_structure(structure)
        _print_params(params, models)
    return int(bool(structure) or bool(params))


def _print_structure(structure: SymbolDifference) -> None:
    show("structure: the same" if not structure else "structure: different")
    for sign, names in (("-", structure.removed), ("+", structure.added)):
        for name in names:
            show(f"  {sign} {printable(name)}")
    rows = [(change.node, change.what, change.a, change.b) for change in (*structure.changed, *structure.rewired)]
    rows += [(old, "name", old, new) for old, new in structure.renamed]
    if rows:
        print_table(("node", "what", "A", "B"), rows)


def _print_params(params: ParamsDifference | None, models: list[ModelFiles]) -> None:
    if params is None:
        return
    show("parameters: the same" if not params else "parameters: different")
    for model, sign in zip(models, "AB", strict=True):
        show(f"  {sign}: {printable(str(model.params_path or 'none'))}")
    for sign, names in (("-", params.removed), ("+", params.added)):
        for name in names:
            show(f"  {sign} {printable(name)}")
    if params.arrays:
        columns = ("array", "shape", "dtype", "max |difference|", "max relative")
        print_table(columns, [array.row() for array in params.arrays], right=2)
