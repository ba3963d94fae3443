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

    __slots__ = ("_before", "_late", "handler")

    def __enter__(self) -> None:
        self.handler: Callable[..., Any] | None = None
        self._late: tuple[Any, ...] | None = None
        self._before, _of_thread.block = _of_thread.block, self

    def receive(self, *received: Any) -> None:
        """Handle SIGINT while it waits."""
        if self._late is not None and self.handler is not None:
            self.handler(*received)
        self._late = received

    def __exit__(self, *_: object) -> None:
        _of_thread.block = self._before
        if self.handler is not None:
            signals.signal(SIGINT, self.handler)
            if self._late is not None:
                self.handler(*self._late)


class _Blocks(threading.local):
    block: Held | None = None


_of_thread = _Blocks()


def hold_interrupts() -> None:
    """Have interrupts wait for the end of the block that the call is in, if there is one."""
    block = _of_thread.block
    if block is not None and block.handler is None and callable(handler := signals.getsignal(SIGINT)):
        block.handler = handler
        try:
            signals.signal(SIGINT, block.receive)
        except ValueError:  # Python handles signals in the main thread alone
            block.handler = None
