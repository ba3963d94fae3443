"""The storage types that MXNet 1.9.1 would give the outputs of a graph, and the gradients of its variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symjax_nnvm.ir.attributes import FInferStorageType, FSparseGradient, FUpdatesRows
from symjax_nnvm.ir.node import Node, NodeEntry
from symjax_nnvm.ir.rules.storage import DENSE
from symjax_nnvm.ir.traverse import post_order


def infer_storage(outputs: Sequence[NodeEntry], variables: Mapping[str, str]) -> list[str]:
    """Return the storage type of each output: "default", "row_sparse" or "csr". variables: those of variables by name,
    where they are not "default"."""
    first = _storage_of_nodes(outputs, variables)
    return [_storage_of(entry, first) for entry in outputs]


def sparse_gradients(outputs: Sequence[NodeEntry], variables: Mapping[str, str]) -> list[str]:
    """Return the names of variables to which every reader gives a row_sparse gradient. variables: as above."""
    first = _storage_of_nodes(outputs, variables)
    sparse: dict[str, bool] = {}
    for node in first:
        if node.is_variable:
            continue
        rule = FSparseGradient.get(node.op)
        number = None if rule is None else rule(node.attrs, [_storage_of(entry, first) for entry in node.inputs])
        for i, entry in enumerate(node.inputs):
            if entry.node.is_variable:
                sparse[entry.node.name] = sparse.get(entry.node.name, True) and i == number
    return [name for name, always in sparse.items() if always]


def updates_rows(outputs: Sequence[NodeEntry], variables: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the names of a weight and its row_sparse gradient, where the outputs are an update of that gradient's rows
    alone; else None. variables: as above."""
    node = outputs[0].node
    rule = None if node.is_variable else FUpdatesRows.get(node.op)
    if rule is None or not rule(node.attrs, [variables.get(entry.node.name, DENSE) for entry in node.inputs]):
        return None
    weight, grad, *_ = node.inputs
    return weight.node.name, grad.node.name


def _storage_of_nodes(outputs: Sequence[NodeEntry], variables: Mapping[str, str]) -> dict[Node, str]:
    """Return the storage type of each node's first output, in the order of the graph."""
    first: dict[Node, str] = {}
    for node in post_order(outputs):
        if node.is_variable:
            first[node] = variables.get(node.name, DENSE)
            continue
        ins = [_storage_of(entry, first) for entry in node.inputs]
        rule = FInferStorageType.get(node.op)
        first[node] = DENSE if rule is None else rule(node.attrs, ins)
    return first


def _storage_of(entry: NodeEntry, first: Mapping[Node, str]) -> str:
    """Return the storage type of an entry. first: of each node's first output; others are dense."""
    return first[entry.node] if entry.index == 0 else DENSE
