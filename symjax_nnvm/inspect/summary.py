"""A summary of a network: a table of its layers with output shapes, parameters and arithmetic, and the totals.

`print_summary` has the name and the first argument of MXNet's; `summarize` gives the same to programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from symjax_nnvm.errors import plain_list, printable
from symjax_nnvm.inspect.roles import data_inputs
from symjax_nnvm.ir.attributes import FFlops
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.indexed_graph import IndexedGraph
from symjax_nnvm.ir.op import Op
from symjax_nnvm.ir.rules.costs import Flops
from symjax_nnvm.ir.types import Shape, format_shape, is_known, shape_size
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.symbol.call_arguments import expect_symbol, known_shapes
from symjax_nnvm.symbol.symbol import Symbol
from symjax_nnvm.tables import count_text, table_html, table_text


@dataclass(frozen=True)
class Layer:
    """One operator of a network.

    shapes: the shapes of its visible outputs, as far as they are known. parameters: elements of the arguments that it
    is the first to use; None while a shape is unknown. flops: None where they are not counted (`FFlops`) or not known.
    """

    name: str
    op: str
    shapes: tuple[Shape | None, ...]
    parameters: int | None
    flops: Flops | None


@dataclass(frozen=True)
class Summary:
    """Lists layers in the order in which they run, and totals; prints as a table.

    inputs: shapes of the inputs, by name. parameters: elements of all arguments that are learned; states: of the
    auxiliary states; both as far as shapes are known. flops: of everything counted, None while shapes are unknown;
    uncounted: operators without `FFlops`. undecided: the inputs whose shapes decide what is unknown.
    """

    layers: tuple[Layer, ...]
    inputs: dict[str, Shape | None]
    parameters: int
    states: int
    flops: Flops | None
    uncounted: tuple[str, ...]
    undecided: tuple[str, ...]

    columns = ("layer", "operator", "output shape", "parameters", "MACs", "FLOPs")

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table as text: one row for each layer."""
        return [
            (
                layer.name,
                layer.op,
                ", ".join(map(format_shape, layer.shapes)),
                count_text(layer.parameters),
                count_text(layer.flops and layer.flops.macs),
                count_text(layer.flops and layer.flops.total),
            )
            for layer in self.layers
        ]

    def totals(self) -> list[str]:
        """Return the lines under the table."""
        inputs = ", ".join(f"{printable(name)} {format_shape(shape)}" for name, shape in self.inputs.items())
        least = "at least " if any(layer.parameters is None for layer in self.layers) else ""
        lines = [
            f"inputs: {inputs or 'none'}",
            f"layers: {len(self.layers):,}, parameters: {least}{self.parameters:,}, "
            f"elements of auxiliary states: {self.states:,}",
        ]
        if self.flops is not None:
            lines.append(f"one forward pass: {self.flops.macs:,} MACs, {self.flops.total:,} FLOPs (1 MAC = 2 FLOPs)")
        if self.uncounted:
            lines.append(f"not counted in MACs and FLOPs: {plain_list(self.uncounted, 20)}")
        if self.undecided:
            lines.append(f"some shapes are unknown: give those of {plain_list(self.undecided)}")
        return lines

    def __str__(self) -> str:
        return "\n".join([table_text(self.columns, self.rows(), right=3), *self.totals()])

    def _repr_html_(self) -> str:
        return table_html(self.columns, self.rows(), 3, self.totals())

    def to_json(self) -> dict[str, Any]:
        """A plain dict: shapes are lists with None for what is unknown."""
        return {
            "inputs": {name: _plain(shape) for name, shape in self.inputs.items()},
            "layers": [
                {
                    "name": layer.name,
                    "op": layer.op,
                    "shapes": [_plain(shape) for shape in layer.shapes],
                    "parameters": layer.parameters,
                    "macs": layer.flops and layer.flops.macs,
                    "flops": layer.flops and layer.flops.total,
                }
                for layer in self.layers
            ],
            "parameters": self.parameters,
            "states": self.states,
            "macs": self.flops and self.flops.macs,
            "flops": self.flops and self.flops.total,
            "uncounted": list(self.uncounted),
            "undecided": list(self.undecided),
        }


def summarize(
    symbol: Symbol, shapes: Mapping[str, Sequence[int]] | None = None, params: Iterable[str] | None = None
) -> Summary:
    """Return the table of a network's layers.

    Args:
        symbol: the network.
        shapes: shapes of inputs, and of parameters where they are known, by name; 0 and -1 are unknown dimensions.
        params: names of the arguments that are parameters; None for all that do not look like data (`data_inputs`).

    Raises:
        InferenceError: shapes contradict the graph.
        SymbolTypeError: a value is not a shape.
    """
    expect_symbol(symbol, "summarize")
    given_shapes = known_shapes(shapes or {})
    data = data_inputs(symbol, given_shapes, params)
    graph = infer_shape(Graph(symbol.outputs), shapes=given_shapes)
    index, inferred = graph.indexed_graph(), graph.attrs["shape"]
    layers = []
    parameters = states = 0
    counted: set[int] = set(index.mutable_input_nodes)
    uncounted: dict[str, None] = {}
    for nid, node in enumerate(index.nodes):
        op = node.source.op
        if op is None:
            continue
        rows = []
        for entry in node.inputs:
            source = index.nodes[entry.node_id].source
            if source.is_variable and source.name not in data and entry.node_id not in counted:
                counted.add(entry.node_id)
                rows.append(inferred[index.entry_rptr[entry.node_id]])
        size = sum(shape_size(shape) for shape in rows if is_known(shape))
        parameters += size
        if op not in FFlops:
            uncounted[op.name] = None
        first = index.entry_rptr[nid]
        layers.append(
            Layer(
                node.source.name,
                op.name,
                tuple(inferred[first : first + node.source.num_visible_outputs()]),
                size if all(map(is_known, rows)) else None,
                _flops_of(index, nid, inferred),
            )
        )
    variables = {index.nodes[nid].source.name: inferred[index.entry_rptr[nid]] for nid in index.input_nodes}
    for nid in index.mutable_input_nodes:
        shape = inferred[index.entry_rptr[nid]]
        states += shape_size(shape) if is_known(shape) else 0
    inputs = {name: shape for name, shape in variables.items() if name in data}
    unknown = [name for name, shape in inputs.items() if not is_known(shape)] if _undecided(layers) else []
    return Summary(
        tuple(layers),
        inputs,
        parameters,
        states,
        _total(layers),
        tuple(uncounted),
        tuple(name for name in unknown if not name.endswith("label")) or tuple(unknown),
    )


def _undecided(layers: Sequence[Layer]) -> bool:
    return not all(is_known(shape) for layer in layers for shape in layer.shapes)


def _total(layers: Sequence[Layer]) -> Flops | None:
    if any(layer.flops is None and Op.get(layer.op) in FFlops for layer in layers):
        return None
    done = [layer.flops for layer in layers if layer.flops is not None]
    return Flops(sum(flops.macs for flops in done), sum(flops.other for flops in done))


def print_summary(symbol: Symbol, shape: Mapping[str, Sequence[int]] | None = None) -> None:
    """Print `summarize(symbol, shape)`, as MXNet's `mx.viz.print_summary` does.

    Args:
        symbol: the network.
        shape: shapes of inputs by name.

    Raises:
        InferenceError: shapes contradict the graph.
    """
    print(summarize(symbol, shape))


def _flops_of(index: IndexedGraph, nid: int, shapes: Sequence[Shape | None]) -> Flops | None:
    node = index.nodes[nid]
    rule = FFlops.get(node.source.op)
    ins = [shapes[index.entry_id(entry)] for entry in node.inputs]
    outs = shapes[index.entry_rptr[nid] : index.entry_rptr[nid + 1]]
    if rule is None or not all(map(is_known, (*ins, outs[0]))):
        return None
    return rule(node.source.attrs, ins, outs)  # pyright: ignore[reportArgumentType]  # all of them are known


def _plain(shape: Shape | None) -> list[int | None] | None:
    return None if shape is None else list(shape)
