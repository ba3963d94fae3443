"""`mx.viz`: drawings and tables of networks."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import symjax_nnvm
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.viz.plot import NetworkPlot


def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: Any = None,
    node_attrs: Mapping[str, str] | None = None,
    hide_weights: bool = True,
) -> NetworkPlot:
    """A drawing: `.save("net.svg")` writes it, and a notebook shows it.

    dtype, node_attrs, save_format: MXNet's; the drawing has its own style, and the file's name says the format. Warns
    where nodes have one name.
    """
    repeated = [name for name, count in Counter(node.name for node in post_order(symbol.outputs)).items() if count > 1]
    if repeated:
        message = "There are multiple variables with the same name in your graph, this may result in cyclic graph."
        warnings.warn(f"{message} Repeated names: {','.join(repeated)}", RuntimeWarning, stacklevel=2)
    return symjax_nnvm.plot_network(symbol, shape, title=title, hide_weights=hide_weights)


def print_summary(
    symbol: Symbol,
    shape: Mapping[str, Sequence[int]] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = (),
) -> None:
    """Print a table of the layers, their shapes and parameters. line_length, positions: MXNet's; columns fit."""
    symjax_nnvm.print_summary(symbol, shape)
