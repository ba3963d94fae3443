"""The lock of a folder: two runs that write into one would delete and overwrite each other's checkpoints.

The system holds the lock and lets go of it when the process ends, however it ends: a run that was killed goes on at
once. It is a record lock, which a forked process (a loader of data) does not inherit and so cannot keep. The file's
contents only name the run to others.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

from symjax_nnvm.errors import CheckpointError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

NAME = "run.lock"
TIDYING = "tidying"
"""The key that a process publishes while it holds the lock for a moment, to remove the rests of interrupted saves."""

_PATIENCE = 10.0
_MAX_TOLD = 4096

_HELD: WeakValueDictionary[str, RunLock] = WeakValueDictionary()
"""What this process holds: the system would let it take the same lock again, and lose it when one of the two closes."""


class RunLock:
    """The lock of a folder, which one object of one process holds at a time; released with the object."""

    def __init__(self, directory: Path):
        self.directory = directory
        self._key = os.path.realpath(directory)
        self._close: finalize | None = None
        self._process = 0
        self._about: dict[str, Any] = {}

    @property
    def held(self) -> bool:
        """Return whether this object holds it, in this process."""
        return self._close is not None and self._process == os.getpid()

    def take(self, about: Mapping[str, Any]) -> None:
        """Take the lock, unless it is held already. about: plain data that describes this run to others.

        Raises CheckpointError that names the run that holds it, OSError where the folder cannot be written to.
        """
        if self.held:
            return
        other = _HELD.get(self._key)
        if other is not None and other.held:
            raise self._refused(other._about)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(self.directory / NAME, flags, 0o666)
        try:
            deadline = time.monotonic() + _PATIENCE
            while (other := _lock(descriptor)) is not None:
                if (other and TIDYING not in other) or time.monotonic() > deadline:  # {}: its name is not written yet
                    raise self._refused(other)
                time.sleep(0.02)
            self._about = {
                "process": os.getpid(),
                "host": socket.gethostname(),
                "since": time.strftime("%Y-%m-%d %H:%M:%S"),
                **about,
            }
            with suppress(OSError):  # no room for the name of the run that holds it
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(self._about, default=str).encode()[:_MAX_TOLD])
        except BaseException:
            os.close(descriptor)
            raise
        self._close, self._process = finalize(self, os.close, descriptor), os.getpid()
        _HELD[self._key] = self

    def let_go(self) -> None:
        """Release the lock."""
        close, self._close = self._close, None
        if close is not None:
            if _HELD.get(self._key) is self:
                del _HELD[self._key]
            close()

    def _refused(self, holder: Mapping[str, Any]) -> CheckpointError:
        who = ", ".join(f"{key} {value}" for key, value in holder.items()) or "a process that left no description"
        mine = holder.get("process") == os.getpid() and holder.get("host") == socket.gethostname()
        fix = (
            "It runs in this process: call close() of the other Checkpoints, or wait until its fit has ended."
            if mine
            else "Give this run a directory of its own, or wait until the other has ended."
        )
        return CheckpointError(f"Another run is writing to {self.directory}", got=who, fix=fix)


def _lock(descriptor: int) -> dict[str, Any] | None:
    """Lock a file. Returns None, or the description of another holder. A file system without locks has no holder."""
    if fcntl is None:
        return None
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return _read_holder(os.pread(descriptor, _MAX_TOLD, 0))
    except OSError:  # a file system without locks
        return None
    return None


def _read_holder(text: bytes) -> dict[str, Any]:
    """Return the description that the holder wrote; empty where it is cut off."""
    try:
        holder = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return holder if isinstance(holder, dict) else {}
