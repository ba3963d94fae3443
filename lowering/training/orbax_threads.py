"""Orbax's threads: they hold up no process that wants to end, and what they complain of is told once, as one error.

When a write fails, Orbax logs the traceback of every thread that took part, threads that wait for a folder which was
never made wait on for ten minutes (and the process with them), and writers that are still at work find their event loop
closed. What is saved at that moment is our concern, not that of who reads the log.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Set
from typing import Any, TypeVar

from symjax_nnvm.errors import CheckpointError

T = TypeVar("T")

_SETTLED = 0.2
"""Seconds without a complaint after which nobody is still at work."""

_LONGEST = 3.0


class Quiet(logging.Filter):
    """From `begin` to `end`, Orbax logs nothing, and closed event loops are not reported. Everything else is."""

    def __init__(self) -> None:
        super().__init__()
        self._previous: Callable[[Any], Any] | None = None
        self._last = 0.0

    def begin(self) -> None:
        """Unless it has begun."""
        if self._previous is None:
            logging.getLogger("absl").addFilter(self)
            self._previous, sys.unraisablehook = sys.unraisablehook, self._report

    def end(self, *, settle: bool = False) -> None:
        """Let all be heard again. settle: after a failure, wait for those that are still at work."""
        if self._previous is None:
            return
        began = self._last = time.monotonic()
        while settle and time.monotonic() - self._last < _SETTLED and time.monotonic() - began < _LONGEST:
            time.sleep(0.01)
        logging.getLogger("absl").removeFilter(self)
        if sys.unraisablehook == self._report:
            sys.unraisablehook = self._previous
        self._previous = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is to be shown."""
        self._last = time.monotonic()
        return "orbax" not in record.pathname

    def _report(self, unraisable: Any) -> None:
        """What `sys.unraisablehook` does."""
        if self._previous is None:  # it has ended, and somebody kept it
            sys.__unraisablehook__(unraisable)
        elif isinstance(unraisable.exc_value, RuntimeError) and "loop is closed" in str(unraisable.exc_value):
            self._last = time.monotonic()
        else:
            self._previous(unraisable)


def in_daemon(function: Callable[[], T]) -> T:
    """What a function returns, run in a daemon thread: threads that it starts are daemons then, which no process waits
    for when it ends. `wait_at_exit` waits for those that are still writing."""
    done: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            done.append(function())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="orbax-save", daemon=True)
    thread.start()
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


_IN_THE_AIR: set[Any] = set()
_registered_by: int | None = None


def wait_at_exit(checkpoints: Any) -> None:
    """Call `checkpoints.wait()` when the process ends, unless it is `waited_for` before; a save that fails then is a
    warning.

    It must be done before Python closes its pools of threads, which is before `atexit`: Orbax writes with them, and a
    checkpoint that was being written when a script came to its end was lost.
    """
    global _registered_by
    if _registered_by is None:
        getattr(threading, "_register_atexit", atexit.register)(_wait_for_all)
    _registered_by = os.getpid()
    _IN_THE_AIR.add(checkpoints)


def waited_for(checkpoints: Any) -> None:
    """Nothing of these is being written any more."""
    _IN_THE_AIR.discard(checkpoints)


def _wait_for_all() -> None:
    for checkpoints in list(_IN_THE_AIR) if _registered_by == os.getpid() else ():  # a fork's threads are not there
        try:
            checkpoints.wait()
        except CheckpointError as error:
            warnings.warn(str(error), stacklevel=1)
