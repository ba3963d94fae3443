"""Which nodes of a graph ask for 64-bit numbers: JAX has them only when they are switched on."""

from __future__ import annotations

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.types import DType

__all__ = ["WIDE_DTYPES", "asking_for_64_bits"]

WIDE_DTYPES = frozenset({"float64", "int64", "uint64"})
_ASKING_KEYS = {"dtype", "out_dtype", "__dtype__"}


def asking_for_64_bits(graph: Graph) -> list[tuple[Node, DType]]:
    """The nodes whose own attributes ask for 64 bits, and the dtype of their first output.

    graph: with attribute `dtype`, as the inference of dtypes leaves it.
    """
    index, dtypes = graph.indexed_graph(), graph.attrs["dtype"]
    first = [dtypes[eid] for eid in index.entry_rptr[:-1]]
    return [
        (node.source, dtype)
        for node, dtype in zip(index.nodes, first, strict=True)
        if dtype in WIDE_DTYPES and _ASKING_KEYS & node.source.attrs.dict.keys()
    ]
