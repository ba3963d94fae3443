"""`mx.viz`: drawings and tables of networks."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import symjax_nnvm
from lowering.messages.counts import checks_flags
from lowering.mx.accepted_types import DType
from symjax_nnvm.errors import SymbolTypeError, SymbolValueError, printable
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.viz.network_plot import NetworkPlot


@checks_flags
def plot_network(
    symbol: Symbol,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: DType = None,
    node_attrs: Mapping[str, str] | None = None,
    hide_weights: bool = True,
) -> NetworkPlot:
    """Draw a network; `.save("net.svg")` writes the drawing, and a notebook shows it. A warning names nodes of one
    name.

    Args:
        symbol: the network.
        title: the name of the drawing.
        save_format: accepted and ignored: the file's name decides the format.
        shape: shapes of inputs by name; with them the edges show shapes.
        dtype: accepted and ignored.
        node_attrs: accepted and ignored: the drawing has its own style.
        hide_weights: leave out parameters.
    """
    if not isinstance(symbol, Symbol):
        raise SymbolTypeError("symbol must be a Symbol", got=type(symbol).__name__)
    repeated = [name for name, count in Counter(node.name for node in post_order(symbol.outputs)).items() if count > 1]
    if repeated:
        message = "There are multiple variables with the same name in your graph, this may result in cyclic graph."
        warnings.warn(f"{message} Repeated names: {','.join(repeated)}", RuntimeWarning, stacklevel=2)
    return symjax_nnvm.plot_network(symbol, shape, title=title, hide_weights=hide_weights)


@checks_flags
def print_summary(
    symbol: Symbol,
    shape: Mapping[str, Sequence[int]] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = (0.44, 0.64, 0.74, 1.0),
) -> None:
    """Print MXNet's table: a row for each operator, with its output's shape for one sample, its parameters and its
    inputs.

    What MXNet counts wrong is the same here: an input counts as a layer only where it is the first, and a fully
    connected layer looks only at the first axis. `symjax_nnvm.print_summary` counts the parameters themselves.

    Args:
        symbol: the network.
        shape: shapes of inputs by name; without them there are no shapes, and not all parameters are counted.
        line_length: the number of characters in a line.
        positions: where the columns end, in characters or in parts of a line.

    Raises:
        SymbolTypeError: an argument has the wrong type.
        SymbolValueError: an argument has a wrong value.
        InferenceError: shapes contradict the graph.
    """
    if not isinstance(symbol, Symbol):
        raise SymbolTypeError("symbol must be Symbol", got=type(symbol).__name__)
    shapes = _shapes(symbol, shape) if shape is not None else None
    saved = json.loads(symbol.tojson(), strict=False)  # names may hold the ends of lines
    nodes = saved["nodes"]
    columns = [int(line_length * part) for part in positions] if positions[-1] <= 1 else [int(end) for end in positions]
    _print_row(("Layer (type)", "Output Shape", "Param #", "Previous Layer"), columns, "_" * line_length)
    rule, total = "=" * line_length, 0
    for number, node in enumerate(nodes):
        if node["op"] == "null" and number > 0:
            continue
        before = [nodes[i] for i, *_ in node["inputs"] if nodes[i]["op"] != "null" or i in saved["heads"][0]]
        sample = _sample_shape(node, shapes)
        count = _parameters(node, before, shapes)
        total += count
        first, *others = [layer["name"] for layer in before] or [""]
        title = f"{node['name']}({node['op']})"
        _print_row((title, "x".join(map(str, sample)), count, first), columns, rule)
        for name in others:
            _print_row(("", "", "", name), columns)
        rule = "_" * line_length
    print("=" * line_length)
    print(f"Total params: {total}")
    print("_" * line_length)


Node = dict[str, Any]
Shapes = Mapping[str, tuple[int, ...]] | None


def _shapes(symbol: Symbol, input_shapes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all outputs of all nodes, by their names."""
    internals = symbol.get_internals()
    _, shapes, _ = internals.infer_shape(**input_shapes)
    if shapes is None:
        raise SymbolValueError("Input shape is incomplete", fix="Give the shapes of all inputs.")
    return dict(zip(internals.list_outputs(), shapes, strict=True))


def _sample_shape(node: Node, shapes: Shapes) -> tuple[int, ...]:
    """Return the shape of a layer's output without the axis of the batch; () of one with several outputs, or
    unknown."""
    return (shapes or {}).get(node["name"] if node["op"] == "null" else f"{node['name']}_output", ())[1:]


def _parameters(node: Node, before: Sequence[Node], shapes: Shapes) -> int:
    """Return the number of a layer's parameters, as MXNet counts it. before: the layers that it reads."""
    attrs = node.get("attrs", {})
    channels = sum(sample[0] for layer in before if (sample := _sample_shape(layer, shapes)))
    biases = attrs.get("no_bias") != "True"
    match node["op"]:
        case "Convolution":
            filters = int(attrs["num_filter"])
            kernel = math.prod(int(size) for size in re.findall(r"\d+", attrs["kernel"]))
            return channels * filters // int(attrs.get("num_group", "1")) * kernel + biases * filters
        case "FullyConnected":
            return (channels + biases) * int(attrs["num_hidden"])
        case "BatchNorm":
            return 2 * shapes[f"{node['name']}_output"][1] if shapes else 0
        case "Embedding":
            return int(attrs["input_dim"]) * int(attrs["output_dim"])
    return 0


def _print_row(fields: Sequence[Any], ends: Sequence[int], above: str | None = None) -> None:
    """Print fields in columns that end at these characters, below a rule."""
    if above is not None:
        print(above)
    line = ""
    for field, end in zip(fields, ends, strict=False):
        line = f"{line}{printable(str(field))}"[:end].ljust(end)
    print(line)
