"""Orbax's threads: they hold up no process that wants to end.

When a write fails, threads that wait for a folder which was never made wait on for ten minutes, and a process waits for
its threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Set
from typing import TypeVar

T = TypeVar("T")


_ASK_EVERY = 1.0
"""Seconds."""


def in_daemon(function: Callable[[], T], meanwhile: Callable[[], None] | None = None) -> T:
    """What a function returns, run in a daemon thread: threads that it starts are daemons then, which no process waits
    for when it ends. meanwhile: called every second; what it raises is raised, and the function is left alone."""
    done: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            done.append(function())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="orbax-save", daemon=True)
    thread.start()
    while meanwhile is not None and thread.is_alive():
        thread.join(_ASK_EVERY)
        meanwhile()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def orbax_threads() -> set[threading.Thread]:
    """Those that are alive."""
    return {thread for thread in threading.enumerate() if type(thread).__module__.startswith("orbax.")}


def cancel_waiting(before: Set[threading.Thread]) -> None:
    """After a failure: threads that were not there before wait for what will not come, and will not complain of it."""
    for thread in orbax_threads() - before:
        cancel = getattr(thread, "cancel", None)
        if cancel is not None:
            cancel()
