"""Streams: parts of a batch run side by side, each computed by one core from end to end.

XLA's CPU shares every convolution out over the cores. Each time a sleeping thread has to be woken, and the last one
waited for, which on two cores of a virtual machine takes as long as a small convolution does
(docs/reference/benchmarks.md).
Where every sample is by itself, cores need not wait for each other: each computes samples of its own. Others call that
streams (OpenVINO), or one thread for each request.

For that there is a second client of XLA's CPU in the process, whose programs run in the thread that calls them, their
operators on that thread alone. Both clients share one memory: nothing is copied from one to the other.
SYMJAX_NNVM_STREAMS=0 in the environment turns it off.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cache

import jax
import numpy as np
from jax.sharding import Sharding, SingleDeviceSharding

from lowering.native.ask import ask, trouble
from lowering.native.unpromised import one_worker_device

__all__ = ["Streams", "count", "one_core", "why_not"]

SWITCH = "SYMJAX_NNVM_STREAMS"
_making = threading.Lock()
Arrays = Mapping[str, jax.Array]


def count() -> int:
    """Return the number of cores that the process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_core() -> SingleDeviceSharding | None:
    """Return the sharding on the client with one worker; None of one core, or where there is no such client."""
    if os.environ.get(SWITCH) == "0" or count() == 1:
        return None
    with _making:
        return _one_core()


def why_not() -> str | None:
    """Why batches are not computed in streams; None where they can be."""
    if os.environ.get(SWITCH) == "0":
        return f"{SWITCH}=0 in the environment"
    if count() == 1:
        return "the process may use one core"
    return None if one_core() is not None else trouble() or "jaxlib makes no second client with one worker here"


@cache
def _one_core() -> SingleDeviceSharding | None:
    """The sharding on the second client, once a child process has made such a client and computed with it."""
    device = one_worker_device() if ask("one_core") else None
    return None if device is None else SingleDeviceSharding(device)


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the pool of threads, one for each core."""
    return ThreadPoolExecutor(count(), "stream")


class Streams:
    """Runs an executable of one core for some samples, run as one for all samples: parts side by side.

    executable: (inputs by name, constants, None) → outputs with samples along the first axis. constants: arrays on any
    device of this machine's CPU. rows: samples of a part; None: one part has all, and the caller's
    thread computes it. stream: `one_core()`. home: the sharding of outputs.
    """

    def __init__(
        self,
        executable: Callable[..., Sequence[jax.Array]],
        constants: Sequence[jax.Array],
        rows: int | None,
        stream: Sharding,
        home: Sharding,
    ):
        self._executable, self._rows, self._here, self._home = executable, rows, stream, home
        self._held = tuple(jax.device_put(array, stream) for array in constants)

    def by(self, executable: Callable[..., Sequence[jax.Array]]) -> Streams:
        """Return the same streams, which run another executable."""
        other = copy(self)
        other._executable = executable
        return other

    def __call__(self, inputs: Arrays, constants: Sequence[jax.Array], key: None) -> list[jax.Array]:
        """Return the outputs, when they are computed; the first part in the caller's thread."""
        parts = self._parts(inputs)
        others = [_threads().submit(self._run_part, part) for part in parts[1:]]
        return self._joined([self._run_part(parts[0]), *(other.result() for other in others)])

    def start(self, inputs: Arrays) -> Callable[[], list[jax.Array]]:
        """Compute the outputs while the caller does something else; the function returned waits for them."""
        parts = [_threads().submit(self._run_part, part) for part in self._parts(inputs)]
        return lambda: self._joined([part.result() for part in parts])

    def _parts(self, inputs: Arrays) -> list[dict[str, jax.Array]]:
        whole = {name: np.asarray(x) for name, x in inputs.items()}
        if self._rows is None:
            return [{name: jax.device_put(x, self._here) for name, x in whole.items()}]
        samples = next(iter(inputs.values())).shape[0]
        starts = range(0, samples, self._rows)
        return [{n: jax.device_put(x[i : i + self._rows], self._here) for n, x in whole.items()} for i in starts]

    def _run_part(self, inputs: Arrays) -> list[np.ndarray]:
        return [np.asarray(output) for output in self._executable(inputs, self._held, None)]

    def _joined(self, parts: Sequence[Sequence[np.ndarray]]) -> list[jax.Array]:
        whole = parts[0] if len(parts) == 1 else [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
        return [jax.device_put(output, self._home) for output in whole]
