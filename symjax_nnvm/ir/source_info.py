"""The line of the caller's program that made a node, for error messages. Off unless `source_info` is entered."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

__all__ = ["caller", "source_info"]

_OURS = tuple(f"{Path(__file__).parents[2] / package}{os.sep}" for package in ("symjax_nnvm", "lowering"))

_remembered: ContextVar[bool] = ContextVar("remembered", default=False)


@contextmanager
def source_info() -> Iterator[None]:
    """Remember where nodes are made: errors about a node then name the file and line.

    Only nodes that this thread makes inside the context have this. Nodes that passes derive from such a node, with its
    attributes, remember the same line. Files do not keep it.
    """
    token = _remembered.set(True)
    try:
        yield
    finally:
        _remembered.reset(token)


def caller() -> str | None:
    """Return file and line of the innermost frame outside this library, "net.py:12"; None where none is known."""
    if not _remembered.get():
        return None
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
