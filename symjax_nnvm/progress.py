"""How far long work is: a Rich bar on stderr, where that is a terminal.

Without Rich, or on no terminal, nothing is shown; nor is anything that is done within a second.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Protocol

_WORTH_A_BAR = 1.0
"""Seconds."""


class Advance(Protocol):
    """A function that is called as work goes on."""

    def __call__(self, done: int, what: str = "") -> None:
        """Report the amount done, of the total. what: other words beside the bar from now on."""
        ...


@contextmanager
def bar(what: str, total: int | None, shown: bool = True, *, at_once: bool = False) -> Iterator[Advance]:
    """Yield a function that takes how much of `total` is done; it shows a bar when the work takes some time, or at
    once. Lines that are printed meanwhile stand above the bar."""
    if not (shown and sys.stderr.isatty() and find_spec("rich") is not None):
        yield lambda done, what="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with ExitStack() as started:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        console, on_terminal = Console(stderr=True), sys.stdout.isatty()
        progress = Progress(*columns, console=console, transient=True, redirect_stdout=on_terminal)
        task = progress.add_task(what, total=total)
        due = time.monotonic() + _WORTH_A_BAR
        if at_once:
            started.enter_context(progress)

        def advance(done: int, what: str = "") -> None:
            nonlocal due
            now = time.monotonic()
            if now < due and not at_once:
                return
            if not progress.live.is_started:
                started.enter_context(progress)
            progress.update(task, completed=done, description=what or None)
            due = now + 0.1

        yield advance
