"""The storage types that MXNet 1.9.1 would give the outputs of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symjax_nnvm.ir.attributes import FInferStorageType
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.rules.storage import DENSE
from symjax_nnvm.ir.traverse import post_order


def infer_storage(outputs: Sequence[NodeEntry], variables: Mapping[str, str]) -> list[str]:
    """Return the storage type of each output: "default", "row_sparse" or "csr". variables: those of variables by name,
    where they are not "default"."""
    first: dict[Node, str] = {}
    for node in post_order(outputs):
        if node.is_variable:
            first[node] = variables.get(node.name, DENSE)
            continue
        ins = [_storage_of(entry, first) for entry in node.inputs]
        rule = FInferStorageType.get(node.op)
        first[node] = DENSE if rule is None else rule(node.attrs, ins)
    return [_storage_of(entry, first) for entry in outputs]


def _storage_of(entry: NodeEntry, first: Mapping[Node, str]) -> str:
    """Return the storage type of an entry. first: of each node's first output; others are dense."""
    return first[entry.node] if entry.index == 0 else DENSE
