"""Threads that make things ahead of their use, and for which a process that ends does not wait without end."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

_GRACE = 2.0
"""Seconds, at most, that a process which ends waits for what its workers are at: what JAX computes is not cut off."""

_Task = tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]


class Workers:
    """Runs functions in threads, as `ThreadPoolExecutor` does, whose threads a process waits for until they end.

    The threads end with this object.
    """

    def __init__(self, count: int, name: str):
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self.threads = [
            threading.Thread(target=_work, args=(self._tasks,), name=f"{name}_{number}", daemon=True)
            for number in range(count)
        ]
        self.end = weakref.finalize(self, _end, self._tasks, count)
        """Has the threads end after what they are at, and does not wait for them."""
        for thread in self.threads:
            thread.start()
        _living().add(self)

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Call a function in a thread. Returns a future."""
        future: Future[Any] = Future()
        self._tasks.put((future, function, args))
        return future

    def give_up(self) -> None:
        """Exclude these threads from those that the process waits for when it ends: one is stuck."""
        _living().discard(self)


def _work(tasks: SimpleQueue[_Task | None]) -> None:
    while (task := tasks.get()) is not None:
        future, function, args = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function(*args))
            except BaseException as error:
                future.set_exception(error)
        del task, future, function, args  # what waits for the next one holds nothing


def _end(tasks: SimpleQueue[_Task | None], count: int) -> None:
    try:
        while (task := tasks.get_nowait()) is not None:
            task[0].cancel()
    except Empty:
        pass
    for _ in range(count):
        tasks.put(None)


@cache
def _living() -> weakref.WeakSet[Workers]:
    """Return all workers, which are ended when the process ends."""
    atexit.register(_end_all)
    return weakref.WeakSet()


def _end_all() -> None:
    workers = list(_living())
    until = time.monotonic() + _GRACE
    for worker in workers:
        worker.end()
    for worker in workers:
        for thread in worker.threads:
            thread.join(max(0.0, until - time.monotonic()))
