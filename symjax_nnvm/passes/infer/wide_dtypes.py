"""Find the nodes of a graph that request 64-bit numbers: JAX has them only when they are switched on."""

from __future__ import annotations

from symjax_nnvm.ir.graph import Graph
from symjax_nnvm.ir.node import Node
from symjax_nnvm.ir.types import DTYPE_CODES, DType

WIDE_DTYPES = frozenset({"float64", "int64", "uint64"})
_ASKING_KEYS = {"dtype", "out_dtype", "__dtype__"}
_NARROW = {text for name, code in DTYPE_CODES.items() if name not in WIDE_DTYPES for text in (name, str(code))}


def may_ask_for_64_bits(graph: Graph) -> bool:
    """Return whether some node's attributes name a dtype that may have 64 bits; used before inference."""
    attrs = (node.source.attrs.dict for node in graph.indexed_graph().nodes)
    return any(named[key] not in _NARROW for named in attrs if named for key in _ASKING_KEYS & named.keys())


def asking_for_64_bits(graph: Graph) -> list[tuple[Node, DType]]:
    """Return the nodes whose own attributes request 64 bits, and the dtype of their first output.

    graph: with attribute `dtype`, as the inference of dtypes leaves it.
    """
    index, dtypes = graph.indexed_graph(), graph.attrs["dtype"]
    first = [dtypes[eid] for eid in index.entry_rptr[:-1]]
    return [
        (node.source, dtype)
        for node, dtype in zip(index.nodes, first, strict=True)
        if dtype in WIDE_DTYPES and _ASKING_KEYS & node.source.attrs.dict.keys()
    ]
