"""MXNet's storage types are checked, and arrays are dense all the same."""

from __future__ import annotations

import warnings
from functools import cache

from symjax_nnvm.errors import CallError

STORAGE = ("default", "row_sparse", "csr")


class StorageError(CallError, ValueError):
    """The storage type does not exist. MXNet raises a ValueError."""


class DenseWarning(UserWarning):
    """Warns that a dense array was made instead of a sparse one."""


@cache
def warn_once() -> None:
    """Warn that arrays are dense, at the first call."""
    message = "Arrays are dense here: row_sparse and csr arrays store their zeros too. Results are the same."
    warnings.warn(message, DenseWarning, stacklevel=4)


def check_storage(stype: str | None) -> None:
    """Raise StorageError for anything that is not a storage type; warn of those that are not here."""
    if stype not in (None, *STORAGE):
        raise StorageError("No such storage type", expected=f"one of {STORAGE}", got=repr(stype))
    if stype not in (None, "default"):
        warn_once()
