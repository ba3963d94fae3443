"""How a run shows where it is: a Rich progress bar on a terminal, else one line per epoch.

Epochs count from 0, as in MXNet's log (`Epoch[0]`), in `History` and everywhere else.
"""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """A bar of steps with the latest metrics, and lines above it. Without Rich, or without a terminal: lines only.

    shown: False for silence. total: steps in the run; done: those already taken. what: stands beside the bar at first.
    """

    def __init__(self, shown: bool, total: int | None, done: int = 0, what: str = "compiling"):
        self._shown = shown
        self._bar: Any = None
        if shown and sys.stdout.isatty():
            self._bar, self._task = _rich_bar(total, done, what)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """One step more."""
        if self._bar is not None:
            self._bar.advance(self._task)

    def describe(self, epoch: int, epochs: int, metrics: dict[str, float]) -> None:
        """Set the text beside the bar."""
        if self._bar is not None:
            self._bar.update(self._task, description=f"{_numbered(epoch, epochs)}  {_listed(metrics)}")

    def epoch_line(self, epoch: int, epochs: int, metrics: dict[str, float], seconds: float) -> None:
        """The line that stays when an epoch is done."""
        line = f"{_numbered(epoch, epochs)}  {_listed(metrics)}  {seconds:.1f} s"
        if self._bar is not None:
            self._bar.console.print(line, highlight=False)
        elif self._shown:
            print(line, flush=True)


def _numbered(epoch: int, epochs: int) -> str:
    """The last of 8 is epoch 7 (8 of 8): its number, and how many there are with it."""
    return f"epoch {epoch} ({epoch + 1} of {epochs})"


def _listed(metrics: dict[str, float]) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def _rich_bar(total: int | None, done: int, what: str) -> tuple[Any, Any]:
    """(bar, task), or (None, None) where Rich is not installed: the extra `train`."""
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        return None, None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns)
    return bar, bar.add_task(what, total=total, completed=done)
