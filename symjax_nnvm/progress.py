"""How long work that is not a command's own shows where it is: a Rich bar on stderr, where that is a terminal.

Without Rich, or without a terminal, nothing is shown; nor is anything that is done within a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

_WORTH_A_BAR = 1.0
"""Seconds."""


@contextmanager
def bar(what: str, total: int, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """A function to be told how much of `total` is done; it shows a bar when that takes its time."""
    if not (shown and sys.stderr.isatty() and find_spec("rich") is not None):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with ExitStack() as started:
        progress = Progress(console=Console(stderr=True), transient=True)
        task = progress.add_task(what, total=total)
        due = time.monotonic() + _WORTH_A_BAR

        def advance(done: int) -> None:
            nonlocal due
            now = time.monotonic()
            if now < due:
                return
            if not progress.live.is_started:
                started.enter_context(progress)
            progress.update(task, completed=done)
            due = now + 0.1

        yield advance
