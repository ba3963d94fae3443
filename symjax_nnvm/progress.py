"""How far long work is: a Rich bar on stderr, where that is a terminal.

Without Rich, or on no terminal, nothing is shown; nor is anything that is done within a second.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Protocol

_WORTH_A_BAR = 1.0
"""Seconds."""


class _OfThread(threading.local):
    tell: Callable[[str], None] | None = None
    """Shows other words beside the bar of the work that the thread is at."""


_of_thread = _OfThread()


def tell(what: str) -> None:
    """Have the bar of the work that this thread is at, if there is one, show other words until the work goes on."""
    if _of_thread.tell is not None:
        _of_thread.tell(what)


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
        words, due, is_over = what, time.monotonic() + _WORTH_A_BAR, False
        before = _of_thread.tell
        if at_once:
            started.enter_context(progress)

        def show(words: str, done: int | None = None) -> None:
            progress.update(task, completed=done, description=words)
            if not progress.live.is_started:
                started.enter_context(progress)

        def advance(done: int, what: str = "") -> None:
            nonlocal words, due
            words = what or words
            now = time.monotonic()
            if now >= due or at_once:
                show(words, done)
                due = now + 0.1

        def tell_other(what: str) -> None:
            nonlocal due
            if not is_over:  # a generator's bar may end in another thread than it began in
                show(what)
                due = 0.0

        _of_thread.tell = tell_other
        try:
            yield advance
        finally:
            is_over = True
            if _of_thread.tell is tell_other:
                _of_thread.tell = before
