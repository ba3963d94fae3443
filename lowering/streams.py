"""Streams: parts of a batch side by side, each computed by one core from end to end.

XLA's CPU shares every convolution out over the cores. Each time a sleeping thread has to be woken, and the last one
waited for, which on two cores of a virtual machine takes as long as a small convolution does (docs/benchmarks.md).
Where every sample is by itself, cores need not wait for each other: each computes samples of its own. Others call that
streams (OpenVINO), or one thread for each request.

For that there is a second client of XLA's CPU in the process, whose programs run in the thread that calls them, their
operators on that thread alone. Its arrays lie where the other client's do: nothing is copied from one to the other.
SYMJAX_NNVM_STREAMS=0 in the environment turns it off.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Sharding, SingleDeviceSharding

try:
    from jaxlib.xla_client import make_cpu_client
except ImportError:  # of a jaxlib that makes clients otherwise
    make_cpu_client = None

__all__ = ["Streams", "count", "one_core"]

SWITCH = "SYMJAX_NNVM_STREAMS"
_WORKERS = "PJRT_NPROC"
"""How many workers XLA's client makes for its operators, read when it is made."""
_WORKER = "XLAEigen"
"""What their names end with."""

_making = threading.Lock()
Arrays = Mapping[str, jax.Array]


def count() -> int:
    """How many cores the process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_core() -> SingleDeviceSharding | None:
    """Where arrays of one core lie, whichever that is; None where there is but one, or where jaxlib makes none."""
    if os.environ.get(SWITCH) == "0" or count() == 1:
        return None
    with _making:
        return _one_core()


@cache
def _one_core() -> SingleDeviceSharding | None:
    if platform.system() != "Linux" or make_cpu_client is None:  # elsewhere nothing says how many workers there are
        return None
    jax.devices("cpu")  # has its workers before
    before = _workers()
    try:
        with _one_worker():
            client = make_cpu_client(asynchronous=False, num_devices=1)
    except (TypeError, ValueError, jax.errors.JaxRuntimeError):
        return None
    return SingleDeviceSharding(client.devices()[0]) if len(_workers() - before) == 1 else None


@contextmanager
def _one_worker() -> Iterator[None]:
    was = os.environ.get(_WORKERS)
    os.environ[_WORKERS] = "1"
    try:
        yield
    finally:
        if was is None:
            del os.environ[_WORKERS]
        else:
            os.environ[_WORKERS] = was


def _workers() -> set[str]:
    """Threads that XLA's clients compute with."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text().strip().endswith(_WORKER):
                found.add(task.name)
        except OSError:  # ended meanwhile
            continue
    return found


@cache
def _threads() -> ThreadPoolExecutor:
    """One for each core."""
    return ThreadPoolExecutor(count(), "stream")


class Streams:
    """An executable of one core, for some samples, as one for all: parts side by side.

    executable: (inputs by name, arrays by name, None) → outputs with samples along the first axis. held: the arrays,
    wherever they lie on this machine's CPU. rows: samples of a part. here: `one_core()`. home: where outputs come to
    lie.
    """

    def __init__(
        self, executable: Callable[..., Sequence[jax.Array]], held: Arrays, rows: int, here: Sharding, home: Sharding
    ):
        self._executable, self._rows, self._here, self._home = executable, rows, here, home
        self._held = {name: jax.device_put(array, here) for name, array in held.items()}

    def __call__(self, inputs: Arrays, held: Arrays, key: None) -> list[jax.Array]:
        """The outputs, when they are computed; the first part in the caller's thread."""
        parts = self._parts(inputs)
        others = [_threads().submit(self._part, part) for part in parts[1:]]
        return self._joined([self._part(parts[0]), *(other.result() for other in others)])

    def start(self, inputs: Arrays) -> Callable[[], list[jax.Array]]:
        """The same while the caller does something else: what waits for the outputs."""
        parts = [_threads().submit(self._part, part) for part in self._parts(inputs)]
        return lambda: self._joined([part.result() for part in parts])

    def _parts(self, inputs: Arrays) -> list[dict[str, jax.Array]]:
        samples = next(iter(inputs.values())).shape[0]
        whole = {name: np.asarray(x) for name, x in inputs.items()}
        starts = range(0, samples, self._rows)
        return [{n: jax.device_put(x[i : i + self._rows], self._here) for n, x in whole.items()} for i in starts]

    def _part(self, inputs: Arrays) -> list[np.ndarray]:
        return [np.asarray(output) for output in self._executable(inputs, self._held, None)]

    def _joined(self, parts: Sequence[Sequence[np.ndarray]]) -> list[jax.Array]:
        return [jax.device_put(np.concatenate(each), self._home) for each in zip(*parts, strict=True)]
