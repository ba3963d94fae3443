"""Interrupts that wait until results are held: a program that is given arrays to write in has consumed them by then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from signal import SIGINT
from typing import Any

try:  # `signal` looks each handler up among its constants, which takes fifteen times as long
    import _signal as signals  # pyright: ignore[reportMissingImports]
except ImportError:
    import signal as signals


class Held:
    """A block at whose end the results of programs are held. From `hold_interrupts` on SIGINT waits for that end; a
    second one is raised at once."""

    __slots__ = ("_before", "_handler", "_late")

    def __enter__(self) -> None:
        self._handler: Callable[..., Any] | None = None
        self._late: tuple[Any, ...] | None = None
        self._before, _of_thread.block = _of_thread.block, self

    def begin(self) -> None:
        """Have interrupts wait, in the thread that gets them, where Python handles them."""
        if self._handler is None and threading.current_thread() is threading.main_thread():
            handler = signals.getsignal(SIGINT)
            if callable(handler):
                self._handler = handler
                signals.signal(SIGINT, self._receive)

    def _receive(self, *received: Any) -> None:
        if self._late is not None and self._handler is not None:
            self._handler(*received)
        self._late = received

    def __exit__(self, *_: object) -> None:
        _of_thread.block = self._before
        if self._handler is not None:
            signals.signal(SIGINT, self._handler)
            if self._late is not None:
                self._handler(*self._late)


class _OfThread(threading.local):
    block: Held | None = None


_of_thread = _OfThread()


def hold_interrupts() -> None:
    """Have interrupts wait for the end of the block that the call is in, if there is one."""
    if _of_thread.block is not None:
        _of_thread.block.begin()
