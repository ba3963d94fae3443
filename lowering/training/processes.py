"""One run by several processes: they agree on numbers, end together on SIGTERM, and name a process that is lost.

A process that dies leaves the others in a collective operation, which fails or waits. JAX itself then gives an error of
the network's library, which names no process, and aborts the process after its heartbeat timeout (100 s by default). So
the processes publish in the store of JAX's coordinator that they have noticed a failure or have ended; a process that
publishes neither is the lost one. A thread does so for a process that waits. In a process whose operation does not fail
that thread prints the error. With `fit(..., exit_when_lost=True)` it also ends that process, and no process waits for a
dead one when it exits. The coordinator is in process 0; `lifeline.py` names that one.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from lowering.sharding.placement import Placement
from lowering.training.lifeline import connect_to_coordinator, coordinator, describe_process
from symjax_nnvm.errors import CheckpointError, NNVMError, TrainingError, plain_list

T = TypeVar("T")

_NOTICED_WITHIN = 20.0
"""Seconds within which every living process notices a failure."""

_NOTICED_BY_ALL_BUT_ONE = 3.0
"""Seconds after which the only process that has not reported a failure counts as lost."""

SILENCE = 30.0
"""Seconds without a sign of life after which those that wait for a process's part of a checkpoint take it for lost."""

_GRACE = 10.0
"""Seconds after which a process whose operation does not fail by itself prints the error, and may be ended."""

_COORDINATOR_WAITS = 25.0
"""Seconds that process 0, which is the coordinator, waits for the others to end before it."""

_ASK_EVERY = 1.0
"""Seconds between two looks at the coordinator's store."""

_AGAIN = "Start all processes again: with checkpoints=, fit goes on from the latest one."

_CONNECTION = re.compile(r"gloo|nccl|connection|socket|peer|UNAVAILABLE|DEADLINE_EXCEEDED|heartbeat", re.IGNORECASE)
"""Words of the errors of collective operations; errors of a computation alone have none of them."""

_COLLECTIVE = re.compile(r"\b(gloo|nccl)\b", re.IGNORECASE)
"""Words of the same errors where JAX raises them as ValueErrors; a file's error may name a connection, too."""

_runs = count()
_a_process_is_lost = False
_ends_at_once = False


class Team:
    """The processes of one call of `fit`: a context in which an error of the network becomes a TrainingError
    that names the lost process. A team of one process does nothing.

    exits: whether this process may be ended where no error can be raised.
    """

    def __init__(self, placement: Placement, exits: bool):
        self._placement = placement
        self._exits = exits
        self.size = placement.processes
        self.me = jax.process_index() if self.size > 1 else 0
        self._run = f"symjax_nnvm/fit/{next(_runs)}"
        self._over = threading.Event()
        self._heard: dict[int, tuple[str, float]] = {}

    @property
    def first(self) -> bool:
        """Return whether this is the process that shows progress and writes what is written once."""
        return self.me == 0

    def largest(self, number: int) -> int:
        """The largest of the processes' numbers; every process must call this at the same step."""
        if self.size == 1:
            return number
        mesh, whole = self._placement.mesh, self._placement.sharding()
        assert mesh is not None  # or there would be one process
        split = self._placement.sharding(mesh.axis_names)
        numbers = jax.make_array_from_callback((mesh.size,), split, lambda _: np.full(1, number, np.int32))
        return int(jax.jit(jnp.max, out_shardings=whole)(numbers))

    def check_lengths(self, length: int | None) -> None:
        """Raise TrainingError where the processes have different numbers of batches, and would wait for each other."""
        mine = -1 if length is None else length
        most, least = self.largest(mine), -self.largest(-mine)
        if most != least:
            raise TrainingError(
                "The processes have different numbers of batches in an epoch",
                expected=f"{least}, as the process with the fewest",
                got=f"{most} in another; {mine} in process {self.me}",
                fix="Drop the extra batches, or use lowering.Batches without shard, which gives all the same number.",
            )

    def __enter__(self) -> Team:
        if self.size > 1:
            self._publish("who", describe_process())
            if self._exits:
                _end_at_once_at_exit(self.me, self.size)
                connect_to_coordinator(self.me, self.size, lambda who: _last_line(self._name({0: who})))
            threading.Thread(target=self._watch, name="fit-processes", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.size == 1 or error is None or isinstance(error, SystemExit):
            if self.size > 1:
                self._publish("done", "")
            self._over.set()
            return
        self._publish("noticed", "")
        self._over.set()
        if self.broken_by(error):
            global _a_process_is_lost
            _a_process_is_lost = True
            raise self._failure(str(error)) from None
        self._publish("ended", f"{type(error).__name__}: {str(error)[:500]}")

    def broken_by(self, error: BaseException | None) -> bool:
        """Return whether an error is the network's: the processes can do nothing together any more."""
        return self.size > 1 and is_of_network(error)

    def check_alive(self) -> None:
        """Raise JaxRuntimeError when another process has failed, or has given no sign of life for 30 seconds.

        A process calls this while it waits for others outside of a collective operation, which would fail by itself.
        """
        if self._published("noticed") or self._published("ended"):
            raise jax.errors.JaxRuntimeError("UNAVAILABLE: another process failed")
        if silent := self._silent():
            raise jax.errors.JaxRuntimeError(
                f"UNAVAILABLE: processes {silent} did not answer for {SILENCE:.0f} seconds"
            )

    def _silent(self) -> list[int]:
        """Return the other processes that have given no sign of life for 30 seconds."""
        now = time.monotonic()
        for process, beat in self._published("beat").items():
            if self._heard.get(process, ("", now))[0] != beat:
                self._heard[process] = beat, now
        silent = {process for process, (_, since) in self._heard.items() if now - since > SILENCE}
        return sorted(silent - {self.me, *self._published("done")}) if silent else []

    # -- naming the lost process ---------------------------------------------------------------------------------------

    def _failure(self, text: str) -> TrainingError:
        """Return the error for a collective operation that failed with this text."""
        first_line = text.rpartition("computation: ")[2].splitlines()[0][:200]
        try:
            verdict = self._verdict()
        except (jax.errors.JaxRuntimeError, RuntimeError):
            verdict = "The connection to process 0, the coordinator, was lost"
        return TrainingError(verdict, got=first_line, fix=_AGAIN)

    def _watch(self) -> None:
        """Publish signs of life until the run is over. Where another process failed and this one does not end by
        itself, print the error that it cannot raise, and end it, if it may be ended."""
        with suppress(jax.errors.JaxRuntimeError, RuntimeError):  # the coordinator has ended: JAX ends the process
            for beat in count():
                self._publish("beat", str(beat))
                if self._over.wait(_ASK_EVERY):
                    return
                silent = not self._exits and self._silent()  # it may only be slow: no reason to end this process
                if silent or self._published("noticed") or self._published("ended"):
                    verdict = self._verdict()
                    if self._over.wait(_GRACE):
                        return
                    print(_last_line(verdict), file=sys.stderr, flush=True)
                    if self._exits:
                        _leave(self.me, self.size)
                    return

    def _verdict(self) -> str:
        """Return the message that names the lost process: the first one that any process published."""
        self._publish("noticed", "")
        began = time.monotonic()
        alone_since: float | None = None
        while not (verdicts := self._published("verdict")):
            now, ended = time.monotonic(), self._published("ended")
            missing = set(range(self.size)) - {*self._published("noticed"), *self._published("done"), *ended}
            alone_since = None if len(missing) > 1 else alone_since or now
            settled = alone_since is not None and now - alone_since > _NOTICED_BY_ALL_BUT_ONE
            if ended or settled or now - began > _NOTICED_WITHIN:
                self._publish("verdict", self._message(missing, ended), key=0, overwrite=False)
            time.sleep(0.1)
        return verdicts[0]

    def _message(self, missing: set[int], ended: dict[int, str]) -> str:
        who = self._published("who")
        if ended:
            return "; ".join(f"Process {i} ({who.get(i)}) ended with {text}" for i, text in ended.items())
        if not missing:
            return "The connection between the processes broke"
        for i in missing:
            _publish_for_exit("lost", i)
        return self._name({i: who.get(i, "unknown") for i in sorted(missing)})

    def _name(self, lost: dict[int, str]) -> str:
        names = plain_list([f"process {i} ({who})" for i, who in lost.items()])
        return f"Lost {names} of {self.size}, which was killed or cannot be reached any more"

    def _publish(self, topic: str, text: str, *, key: int | None = None, overwrite: bool = True) -> None:
        """Store a text under this process's number, or another key, for all processes to read."""
        key = self.me if key is None else key
        with suppress(jax.errors.JaxRuntimeError):  # another process was first, or there is no coordinator any more
            coordinator().key_value_set(f"{self._run}/{topic}/{key}", text or "-", overwrite)

    def _published(self, topic: str) -> dict[int, str]:
        """Return the texts that processes have stored, by process."""
        rows = coordinator().key_value_dir_get(f"{self._run}/{topic}/")
        return {int(key.rpartition("/")[2]): text for key, text in rows}


def is_of_network(error: BaseException | None) -> bool:
    """Return whether an error is that of a failed collective operation of several processes."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return _CONNECTION.search(str(error)) is not None
    ours = isinstance(error, NNVMError)
    return isinstance(error, ValueError) and not ours and _COLLECTIVE.search(str(error)) is not None


def _last_line(verdict: str) -> str:
    """Return the TrainingError of a verdict, as the last line of a traceback prints it."""
    error = TrainingError(verdict, fix=_AGAIN)
    return f"{type(error).__module__}.{type(error).__qualname__}: {error}"


def run_in_daemon(function: Callable[[], T], while_waiting: Callable[[], None] | None = None) -> T:
    """Return the result of a function that runs in a daemon thread.

    Threads that the function starts are daemons then, too, and the interpreter does not wait for them when it exits.
    while_waiting: called every second; an error that it raises is raised here, and the function is left running.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="orbax-save", daemon=True)
    thread.start()
    while while_waiting is not None and thread.is_alive():
        thread.join(_ASK_EVERY)
        while_waiting()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


# -- the end of a process ----------------------------------------------------------------------------------------------


def _publish_for_exit(topic: str, process: int) -> None:
    coordinator().key_value_set(f"symjax_nnvm/{topic}/{process}", "-", True)


def _published_for_exit(topic: str) -> set[int]:
    return {int(key.rpartition("/")[2]) for key, _ in coordinator().key_value_dir_get(f"symjax_nnvm/{topic}/")}


def _end_at_once_at_exit(me: int, size: int) -> None:
    """Let this process exit without JAX's wait for all processes, when one was lost or no caller caught an error."""
    global _ends_at_once
    if not _ends_at_once:
        atexit.register(_leave_if_broken, me, size)  # before JAX's own, which was registered earlier
    _ends_at_once = True


def _leave_if_broken(me: int, size: int) -> None:
    if _a_process_is_lost or getattr(sys, "last_value", None) is not None:
        _leave(me, size)


def _leave(me: int, size: int) -> None:
    """End this process now; process 0 ends after the others, which abort when their coordinator ends."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    with suppress(jax.errors.JaxRuntimeError, RuntimeError, AttributeError):
        _publish_for_exit("gone", me)
        deadline = time.monotonic() + _COORDINATOR_WAITS
        while me == 0 and time.monotonic() < deadline:
            if len({*_published_for_exit("gone"), *_published_for_exit("lost")}) >= size:
                break
            time.sleep(0.1)
        time.sleep(0.2 if me == 0 else 0.0)  # a process that has published "gone" is about to end
    os._exit(1)


# -- work of one process for all ---------------------------------------------------------------------------------------


def on_first(action: Callable[[], None], what: str) -> None:
    """Run an action only in process 0; every process waits until it is done.

    what: the action in words, "write a file".
    Raises the action's NNVMError or OSError in process 0, and CheckpointError in the others.
    """
    if jax.process_count() == 1:
        return action()
    failure: NNVMError | OSError | None = None
    if jax.process_index() == 0:
        try:
            action()
        except (NNVMError, OSError) as error:
            failure = error
    if int(multihost_utils.broadcast_one_to_all(np.int32(failure is not None))):
        raise failure or CheckpointError(f"Process 0 could not {what}", fix="The error of process 0 has the reason.")
    return None


class Preemption:
    """A context that handles SIGTERM, which schedulers send before they take a machine: the run ends at a step.

    handled: whether a run of one process handles it; runs of several do since `jax.distributed.initialize`.
    """

    def __init__(self, team: Team, handled: bool):
        self._team = team
        self._handled = handled and team.size == 1 and threading.current_thread() is threading.main_thread()
        self._received = False
        self._handler_before: Any = None

    def __enter__(self) -> Preemption:
        if self._handled:
            self._handler_before = signal.signal(signal.SIGTERM, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handled:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if self._handler_before is None else self._handler_before)

    def _receive(self, *_: object) -> None:
        self._received = True

    def reached(self, step: int) -> bool:
        """Return whether the run is to end before this step; several processes give the same answer for a step."""
        if self._team.size == 1:
            return self._received
        enabled = getattr(jax.config, "jax_enable_preemption_service", False)
        return enabled and multihost_utils.reached_preemption_sync_point(step)
