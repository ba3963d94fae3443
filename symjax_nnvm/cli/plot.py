"""Draw a network: .svg and .dot always, .png and .pdf by Graphviz.

A block that follows itself several times is drawn once. With `--shape`, edges carry shapes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from symjax_nnvm.cli.argument_types import text_of
from symjax_nnvm.cli.console import note, print_json, show, working
from symjax_nnvm.cli.model_argument import add_model, add_shapes, all_shapes, make_folder, of_options
from symjax_nnvm.io.files import write_file
from symjax_nnvm.viz.network_plot import plot_network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add MODEL, where to, and how much of it."""
    add_model(parser)
    parser.add_argument(
        "out", type=text_of("file"), metavar="OUT", help="file to write: .svg, .dot, .png or .pdf; - prints DOT"
    )
    add_shapes(parser)
    parser.add_argument("--weights", action="store_true", help="name the parameters under their operators")
    parser.add_argument("--graphviz", action="store_true", help="have Graphviz lay out .svg, too")
    parser.add_argument("--no-fold", action="store_true", help="draw every copy of repeated blocks")


def run(options: argparse.Namespace) -> int:
    """Write the drawing."""
    model = of_options(options)
    symbol = model.symbol()
    args, aux = model.params(symbol)
    with working("drawing"):
        plot = plot_network(
            symbol,
            all_shapes(options, symbol, args, aux) if options.shape else None,
            title=model.symbol_path.name.removesuffix("-symbol.json"),
            hide_weights=not options.weights,
            fold=not options.no_fold,
            params=args or None,
        )
        if options.out != "-":
            out = Path(options.out)
            model.keep(out)
            content = plot.content(out, graphviz=options.graphviz)
            make_folder(out)
            write_file(out, content)
    if options.json:
        described = {"source": plot.source} if options.out == "-" else {"file": options.out}
        print_json(described | {"drawn": plot.drawn, "folded": plot.folded})
    elif options.out == "-":
        show(plot.source.rstrip("\n"))
    else:
        note(f"{options.out}: {plot.drawn} operators drawn, {plot.folded} folded into them")
    return 0
