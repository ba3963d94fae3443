"""What an operator of MXNet's for oneDNN does at once: a layer, and those after it. Values of FFusing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node, NodeAttrs


@dataclass(frozen=True)
class Fusing:
    """How a layer is fused with those after it, each the only reader of the one before.

    Attributes:
        turn: layers of a turn are fused, and numbered, before those of the next.
        takes: (the row so far, the next node) → whether that joins; the first is asked for with an empty row.
        made: (the row, its number, its nodes as a subgraph) → what does all of it at once; None: the row stays.
    """

    turn: int
    takes: Callable[[Sequence[Node], Node], bool]
    made: Callable[[Sequence[Node], int, Graph], NodeAttrs | None]
