"""`mx.monitor` (`mx.mon`): statistics of the values that an executor computes, at an interval of batches."""

from __future__ import annotations

import logging
import math
import re
import weakref
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from lowering.messages.counts import check_count, checks_flags
from lowering.mx.executor import Executor
from lowering.mx.ndarray.array import NDArray, like_jax
from lowering.norms import norm

Row = tuple[int, str, str]


def _size(x: NDArray) -> NDArray:
    """Return |x| / √size: MXNet's own statistic."""
    return like_jax(norm(x.value).reshape(1) / math.sqrt(x.size))


@runtime_checkable
class Watcher(Protocol):
    """What modules can install: a Monitor, or anything that does what it does."""

    def install(self, exe: Executor) -> None:
        """Watch an executor's runs."""
        ...

    def tic(self) -> None:
        """Begin a batch."""
        ...

    def toc_print(self) -> None:
        """End a batch, and log its statistics."""
        ...


class Monitor:
    """Statistics of outputs, arguments and states whose names match a pattern, in every `interval`-th batch.

    Names and their order are MXNet's, except for what only MXNet's operators have: workspaces of oneDNN, and the inputs
    of gradients, `{node}_backward_input{i}`. Here these are the inputs that are read: gradients, then the node's
    inputs, then its outputs. In inference mode MXNet fuses layers, unless MXNET_SUBGRAPH_BACKEND is NONE, and reports
    the fused ones.

    Args:
        interval: the number of batches between two that are watched.
        stat_func: NDArray → NDArray, or a list of NDArrays; None for |x| / √size, where |x| is the norm.
        pattern: the regular expression for names.
        sort: sort the rows by name.
        monitor_all: watch the inputs of operators as well.
    """

    @checks_flags
    def __init__(
        self,
        interval: int,
        stat_func: Callable[[NDArray], Any] | None = None,
        pattern: str = ".*",
        sort: bool = False,
        monitor_all: bool = False,
    ):
        self.interval, self.sort, self.monitor_all = check_count(interval, "interval"), sort, monitor_all
        self.stat_func = stat_func or _size
        self.re_prog = _pattern(pattern)
        self.activated, self.step = False, 0
        self.queue: list[tuple[int, str, Any]] = []
        self._watched: list[weakref.ref[Executor]] = []

    def install(self, exe: Executor) -> None:
        """Watch an executor."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self._watched = [*filter(lambda watched: watched() is not None, self._watched), weakref.ref(exe)]

    @property
    def exes(self) -> list[Executor]:
        """Return the executors that it watches, as long as others hold them."""
        return [exe for watched in self._watched if (exe := watched()) is not None]

    def stat_helper(self, name: str, array: NDArray) -> None:
        """Record an array, if this batch is watched and the name matches."""
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def tic(self) -> None:
        """Begin to record, before a batch."""
        if self.step % self.interval == 0:
            self.queue, self.activated = [], True
        self.step += 1

    def toc(self) -> list[Row]:
        """Return (step, name, statistic as text) of every array since `tic`; an empty list between the intervals."""
        if not self.activated:
            return []
        for exe in self.exes:
            for name, array in (*exe.arg_dict.items(), *exe.aux_dict.items()):
                self.stat_helper(name, array)
        self.activated = False
        rows = sorted(self.queue, key=lambda row: row[1]) if self.sort else self.queue
        self.queue = []
        return [(step, name, "".join(map(_statistic_text, _listed(values)))) for step, name, values in rows]

    def toc_print(self) -> None:
        """Log what `toc` returns."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %-30s %s", step, name, text)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _listed(values: Any) -> list[NDArray]:
    return [values] if isinstance(values, NDArray) else list(values)


def _statistic_text(value: NDArray) -> str:
    return f"{value.asscalar() if value.shape == (1,) else value.asnumpy()!s}\t"
