"""Several processes at one run: what they agree on, what SIGTERM makes them do, and how they end when one is lost.

A process that dies leaves the others in a collective operation, which fails, or waits. JAX's own ways out of that are a
message from the network's library that names nobody, and, at exit, a wait for the dead one that ends in an abort. So
processes tell each other through JAX's coordinator, over connections that are there already, that they have seen a
failure, or have ended; who says neither is the lost one. A thread says it for a process that waits. Where the
application asked for it (`fit(..., exit_when_lost=True)`), that thread also ends a process whose operation does not
fail by itself, and the end of the process waits for no dead one. Of process 0, in which the coordinator is,
`lifeline.py` tells.
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
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from lowering.sharding.placement import Placement
from lowering.training.lifeline import about_me, connect_to_coordinator, coordinator
from symjax_nnvm.errors import CheckpointError, NNVMError, TrainingError, plain_list

PATIENCE = 20.0
"""Seconds in which every process that lives has noticed a failure."""

SETTLED = 3.0
"""Seconds after which a single process that has not been heard of is taken for the lost one."""

SILENCE = 30.0
"""Seconds after which a process that says nothing is taken for lost by those that wait for its part of a checkpoint."""

_GRACE = 10.0
"""Seconds after which a process whose operation does not fail by itself is ended."""

_LAST = 25.0
"""Seconds that process 0, which is the coordinator, waits for the others to end before it."""

_ASK_EVERY = 1.0

_AGAIN = "Start all processes again: with checkpoints=, fit goes on from the latest one."

_CONNECTION = re.compile(r"gloo|nccl|connection|socket|peer|UNAVAILABLE|DEADLINE_EXCEEDED|heartbeat", re.IGNORECASE)
"""What errors of collective operations say, and those of a computation alone do not."""

_COLLECTIVE = re.compile(r"\b(gloo|nccl)\b", re.IGNORECASE)
"""What the same errors say where JAX raises them as ValueErrors, as those of a file may be that name a connection."""

_runs = count()
_lost = False
_ends = False


class Team:
    """The processes of one call of `fit`: a context, in which an error of the network becomes a TrainingError that says
    which process was lost. Of one process it does nothing.

    exits: whether the process may be ended where nothing can be raised.
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
        """Whether this is the process that shows progress and writes what is written once."""
        return self.me == 0

    def agreed(self, number: int) -> int:
        """The largest of the processes' numbers; every process must ask at the same step."""
        if self.size == 1:
            return number
        mesh, whole = self._placement.mesh, self._placement.of()
        assert mesh is not None  # or there would be one process
        each = self._placement.of(mesh.axis_names)
        given = jax.make_array_from_callback((mesh.size,), each, lambda _: np.full(1, number, np.int32))
        return int(jax.jit(jnp.max, out_shardings=whole)(given))

    def check_lengths(self, length: int | None) -> None:
        """Raise TrainingError where the processes have different numbers of batches, and would wait for each other."""
        mine = -1 if length is None else length
        most, least = self.agreed(mine), -self.agreed(-mine)
        if most != least:
            raise TrainingError(
                "The processes have different numbers of batches in an epoch",
                expected=f"{least}, as the process with the fewest",
                got=f"{most} in another; {mine} in process {self.me}",
                fix="Drop what is over, or give lowering.Batches without shard, which every process cuts alike.",
            )

    def __enter__(self) -> Team:
        if self.size > 1:
            self._say("who", about_me())
            if self._exits:
                _end_with(self.me, self.size)
                connect_to_coordinator(
                    self.me, self.size, lambda who: _worded(TrainingError(_lost_of({0: who}, self.size), fix=_AGAIN))
                )
            threading.Thread(target=self._watch, name="fit-processes", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.size == 1 or error is None or isinstance(error, SystemExit):
            if self.size > 1:
                self._say("done", "")
            self._over.set()
            return
        self._say("noticed", "")
        self._over.set()
        if self.broken_by(error):
            global _lost
            _lost = True
            raise self._failure(str(error)) from None
        self._say("ended", f"{type(error).__name__}: {str(error)[:500]}")

    def broken_by(self, error: BaseException | None) -> bool:
        """Whether an error is the network's: nothing that takes several processes can be done any more."""
        return self.size > 1 and is_of_network(error)

    def check_alive(self) -> None:
        """Raise JaxRuntimeError when another process has failed, or has said nothing for 30 seconds.

        For a process that waits for others outside of a collective operation, which would fail by itself.
        """
        if self._told("noticed") or self._told("ended"):
            raise jax.errors.JaxRuntimeError("UNAVAILABLE: another process met a failure")
        now = time.monotonic()
        for process, beat in self._told("beat").items():
            if self._heard.get(process, ("", now))[0] != beat:
                self._heard[process] = beat, now
        silent = [process for process, (_, since) in self._heard.items() if now - since > SILENCE]
        if {*silent} - {self.me, *self._told("done")}:
            raise jax.errors.JaxRuntimeError(f"UNAVAILABLE: processes {silent} said nothing for {SILENCE:.0f} seconds")

    # -- who is lost ---------------------------------------------------------------------------------------------------

    def _failure(self, text: str) -> TrainingError:
        """What is told of a collective operation that failed."""
        told = text.rpartition("computation: ")[2].splitlines()[0][:200]
        try:
            verdict = self._verdict()
        except (jax.errors.JaxRuntimeError, RuntimeError):
            verdict = "Process 0 was lost, which is the coordinator"
        return TrainingError(verdict, got=told, fix=_AGAIN)

    def _watch(self) -> None:
        """Say that this process lives. Wait for what others say, and where this one may be ended, see to it that it
        ends, too."""
        with suppress(jax.errors.JaxRuntimeError, RuntimeError):  # the coordinator is gone: JAX ends the process
            for beat in count():
                self._say("beat", str(beat))
                if self._over.wait(_ASK_EVERY):
                    return
                if self._told("noticed") or self._told("ended"):
                    verdict = self._verdict()
                    if self._exits and not self._over.wait(_GRACE):
                        print(_worded(TrainingError(verdict, fix=_AGAIN)), file=sys.stderr)
                        _leave(self.me, self.size)

    def _verdict(self) -> str:
        """What the first process that knows says; every process says the same."""
        self._say("noticed", "")
        began = time.monotonic()
        alone_since: float | None = None
        while not (told := self._told("verdict")):
            now, ended = time.monotonic(), self._told("ended")
            missing = set(range(self.size)) - {*self._told("noticed"), *self._told("done"), *ended}
            alone_since = None if len(missing) > 1 else alone_since or now
            settled = alone_since is not None and now - alone_since > SETTLED
            if ended or settled or now - began > PATIENCE:
                self._say("verdict", self._judged(missing, ended), at=0, once=True)
            time.sleep(0.1)
        return told[0]

    def _judged(self, missing: set[int], ended: dict[int, str]) -> str:
        who = self._told("who")
        if ended:
            return "; ".join(f"Process {i} ({who.get(i)}) ended with {text}" for i, text in ended.items())
        if not missing:
            return "The connection between the processes broke"
        for i in missing:
            _note("lost", i)
        return _lost_of({i: who.get(i, "unknown") for i in sorted(missing)}, self.size)

    def _say(self, what: str, text: str, *, at: int | None = None, once: bool = False) -> None:
        with suppress(jax.errors.JaxRuntimeError):  # somebody was first, or there is no coordinator any more
            coordinator().key_value_set(f"{self._run}/{what}/{self.me if at is None else at}", text or "-", not once)

    def _told(self, what: str) -> dict[int, str]:
        rows = coordinator().key_value_dir_get(f"{self._run}/{what}/")
        return {int(key.rpartition("/")[2]): text for key, text in rows}


def is_of_network(error: BaseException | None) -> bool:
    """Whether an error says that a collective operation of several processes failed."""
    if isinstance(error, jax.errors.JaxRuntimeError):
        return _CONNECTION.search(str(error)) is not None
    ours = isinstance(error, NNVMError)
    return isinstance(error, ValueError) and not ours and _COLLECTIVE.search(str(error)) is not None


def _lost_of(lost: dict[int, str], size: int) -> str:
    names = plain_list([f"process {i} ({who})" for i, who in lost.items()])
    return f"Lost {names} of {size}, which was killed or cannot be reached any more"


def _worded(error: TrainingError) -> str:
    """As the last line of a traceback has it."""
    return f"{type(error).__module__}.{type(error).__qualname__}: {error}"


def _note(what: str, process: int) -> None:
    coordinator().key_value_set(f"symjax_nnvm/{what}/{process}", "-", True)


def _noted(what: str) -> set[int]:
    return {int(key.rpartition("/")[2]) for key, _ in coordinator().key_value_dir_get(f"symjax_nnvm/{what}/")}


def _end_with(me: int, size: int) -> None:
    """End without JAX's wait for all processes, when one was lost or this one ends with an error that nobody caught."""
    global _ends
    if not _ends:
        atexit.register(_end_at_once, me, size)  # before JAX's own, which was registered earlier
    _ends = True


def _end_at_once(me: int, size: int) -> None:
    if _lost or getattr(sys, "last_value", None) is not None:
        _leave(me, size)


def _leave(me: int, size: int) -> None:
    """End now; process 0 after the others, which abort when their coordinator is gone."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    with suppress(jax.errors.JaxRuntimeError, RuntimeError, AttributeError):
        _note("gone", me)
        deadline = time.monotonic() + _LAST
        while me == 0 and time.monotonic() < deadline and len({*_noted("gone"), *_noted("lost")}) < size:
            time.sleep(0.1)
        time.sleep(0.2 if me == 0 else 0.0)  # who has said so is about to go
    os._exit(1)


def on_first(action: Callable[[], None], what: str) -> None:
    """Do something in process 0 alone; every process goes on when it is done.

    Raises in that one what it raises, and CheckpointError in the others, which are told what: "write a file".
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
        raise failure or CheckpointError(f"Process 0 could not {what}", fix="What it says tells why.")
    return None


class Preemption:
    """SIGTERM during a run, as schedulers send it before they take a machine: a context in which it is kept.

    kept: whether a single process keeps it; several do since `jax.distributed.initialize`.
    """

    def __init__(self, team: Team, kept: bool):
        self._team = team
        self._kept = kept and team.size == 1 and threading.current_thread() is threading.main_thread()
        self._came = False
        self._before: Any = None

    def __enter__(self) -> Preemption:
        if self._kept:
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._kept:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if self._before is None else self._before)

    def _note(self, *_: object) -> None:
        self._came = True

    def reached(self, step: int) -> bool:
        """Whether the run is to end before this step; several processes say it of the same one."""
        if self._team.size == 1:
            return self._came
        heard = getattr(jax.config, "jax_enable_preemption_service", False)
        return heard and multihost_utils.reached_preemption_sync_point(step)
