"""Rules of storage: how MXNet 1.9.1 stores a result where inputs are sparse. Arrays are dense here; a rule returns the
storage type that the result shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Storage = Sequence[str]
"""The storage type of each input: "default", "row_sparse" or "csr"."""

StorageRule = Callable[[Any, Storage], str]
"""(parameters, storage types of the inputs) → that of the result."""

DENSE = "default"


def storage_of_data(p: Any, ins: Storage) -> str:
    """Return that of the first input: of operators that make 0 of 0."""
    return ins[0]


def storage_of_all(p: Any, ins: Storage) -> str:
    """Return that of all inputs, where they agree: of operators that make 0 of zeros."""
    return ins[0] if len(set(ins)) == 1 else DENSE


def storage_of_product(p: Any, ins: Storage) -> str:
    """Return that of the sparse input, or of both: of operators that make 0 where one of two inputs is 0."""
    sparse = set(ins) - {DENSE}
    return sparse.pop() if len(sparse) == 1 else DENSE


def storage_of_scaled(p: Any, ins: Storage) -> str:
    """Return csr where a csr matrix is multiplied or divided by a dense array."""
    return "csr" if tuple(ins) == ("csr", DENSE) else DENSE


def storage_where(holds: Callable[[float], bool]) -> StorageRule:
    """Return the rule of an operator with a number that makes 0 of 0 where a condition holds for the number."""
    return lambda p, ins: ins[0] if holds(p.scalar) else DENSE
