"""The line of the caller's program that made a node, for error messages. Off unless `source_info` is entered."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType

__all__ = ["caller", "source_info", "warn_caller"]

_OURS = tuple(f"{Path(__file__).parents[2] / package}{os.sep}" for package in ("symjax_nnvm", "lowering"))

_remembered: ContextVar[bool] = ContextVar("remembered", default=False)


@contextmanager
def source_info() -> Iterator[None]:
    """Remember where nodes are made: errors about a node then name the file and line.

    Only nodes that this thread makes inside the context have this. Nodes that passes derive from such a node, with its
    attributes, keep the same line. Files do not keep it.
    """
    token = _remembered.set(True)
    try:
        yield
    finally:
        _remembered.reset(token)


def caller() -> str | None:
    """Return file and line of the innermost frame outside this library, "net.py:12"; None where none is known."""
    frame = _callers_frame()[0] if _remembered.get() else None
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line that `caller` names: Python shows a warning once a line."""
    warnings.warn(message, category, stacklevel=_callers_frame()[1])


def _callers_frame() -> tuple[FrameType | None, int]:
    """Return the innermost frame outside this library, and its distance from the caller, which has the number 1."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    return frame, level
