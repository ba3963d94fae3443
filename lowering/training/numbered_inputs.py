"""Inputs of a network that number something, classes or rows, and how many there are: what their values must be below.

An operator accepts any number: for a class that does not exist SoftmaxOutput subtracts nothing, and Embedding reads the
last row. Training would continue and learn something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from symjax_nnvm.errors import InferenceError
from symjax_nnvm.ir.attributes import TNumbers, TSameValues
from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.traverse import post_order
from symjax_nnvm.ir.types import Shape, is_known
from symjax_nnvm.passes.infer import infer_shape
from symjax_nnvm.symbol.symbol import Symbol


@dataclass(frozen=True)
class Numbered:
    """An input that numbers what node `reader`, of operator op, has `count` of. ignored: a value that is skipped."""

    name: str
    reader: str
    op: str
    count: int
    ignored: float | None


class ClassNumbers:
    """The inputs of a symbol, among those named, that number something: one place for each reader."""

    def __init__(self, symbol: Symbol, names: Iterable[str]):
        self._symbol = symbol
        input_names = set(names)
        self._reads: list[tuple[str, Node, Callable[[Any, list[Any]], int | None]]] = []
        for node in post_order(symbol.outputs):
            position, count = TNumbers.get(node.op, (0, None))
            if count is not None and position < len(node.inputs):
                source = _origin(node.inputs[position])
                if source.is_variable and source.name in input_names:
                    self._reads.append((source.name, node, count))
        self.names = tuple(dict.fromkeys(name for name, _, _ in self._reads))

    def __len__(self) -> int:
        return len(self._reads)

    def of_batch(self, shapes: Mapping[str, Shape]) -> list[Numbered | None]:
        """Return the `Numbered` input of each place in batches of these shapes; None where any number is allowed."""
        if not self._reads:
            return []
        try:
            graph = infer_shape(Graph(self._symbol.outputs), shapes=dict(shapes))
        except InferenceError:  # the graph takes parts of the batch only, and the step cuts it up
            return [None] * len(self)
        index, all_shapes = graph.indexed_graph(), graph.attrs["shape"]
        numbered: list[Numbered | None] = []
        for name, node, count in self._reads:
            inputs: list[Any] = [all_shapes[index.entry_id(entry)] for entry in node.inputs]
            p = node.attrs.parsed
            number = count(p, inputs) if all(map(is_known, inputs)) else None
            ignored = float(p.ignore_label) if getattr(p, "use_ignore", False) else None
            numbered.append(
                None
                if number is None
                else Numbered(name, node.name, node.op.name if node.op else "", int(number), ignored)
            )
        return numbered


def first_outside(numbered: Numbered, values: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return (whether a value numbers nothing, its place in the flattened array, the value), on the device."""
    flat = jnp.ravel(values)
    wide = flat.astype(jnp.promote_types(flat.dtype, jnp.float32))
    wrong = ~((wide >= 0) & (wide < numbered.count))  # NaN, too
    if numbered.ignored is not None:
        wrong &= wide != numbered.ignored
    place = jnp.argmax(wrong)
    return wrong.any(), place.astype(jnp.int32), wide[place]


def _origin(entry: NodeEntry) -> Node:
    """Return the node whose values an entry has: back through operators that only arrange them."""
    node = entry.node
    while TSameValues.get(node.op) and node.inputs:
        node = node.inputs[0].node
    return node
