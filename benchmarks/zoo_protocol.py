"""How `zoo.py` speaks with its contenders: long-lived processes, one JSON line to stdin, one JSON line back.

A contender's script calls `serve` with a function that loads a row and returns a `Loaded`; the commands are

    {"do": "load", "row": …, "batch": …, "training": …, "folder": …}  → {"seconds": until it was ready, …: facts}
    {"do": "outputs", "path": …}                                      → {}; the arrays lie there as .npz
    {"do": "time", "seconds": …}                                      → {"ms": [of each call]}

A contender that fails just ends: the exception at the end of its traceback is what the table shows. Every contender's
interpreter imports this file, so it needs NumPy alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.cores import with_all_cores
from benchmarks.zoo_models import Row

__all__ = ["Contender", "Failed", "Loaded", "serve"]


@dataclass(frozen=True)
class Loaded:
    """A row that a contender has ready. call: runs it once and waits until its results are there.

    outputs: arrays to compare, computed when it was loaded, before any timed call. facts: further numbers to report.
    """

    call: Callable[[], Any]
    outputs: Sequence[np.ndarray]
    facts: Mapping[str, float] = field(default_factory=dict)


class Failed(Exception):
    """What a contender says, in one line, when it cannot go on."""


# -- in the contender --------------------------------------------------------------------------------------------------


def serve(load: Callable[[Row, str], Loaded]) -> None:
    """Answer commands until the input ends. Whatever libraries print goes to stderr, the answers alone to stdout."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    loaded: Loaded | None = None
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "load":
            start = time.perf_counter()
            loaded = load(Row(command["row"], command["batch"], command["training"]), command["folder"])
            answer: dict[str, Any] = {"seconds": time.perf_counter() - start, **loaded.facts}
        else:
            assert loaded is not None, "load comes first"
            answer = _COMMANDS[command["do"]](loaded, command)
        print(json.dumps(answer), file=answers, flush=True)


def _outputs(loaded: Loaded, command: dict[str, Any]) -> dict[str, Any]:
    np.savez(command["path"], *loaded.outputs)
    return {}


def _time(loaded: Loaded, command: dict[str, Any]) -> dict[str, Any]:
    """One call that is not timed, since others had the caches; then as many as fit into the time, at least one."""
    loaded.call()
    times: list[float] = []
    begun = time.perf_counter()
    while not times or time.perf_counter() - begun < command["seconds"]:
        start = time.perf_counter()
        loaded.call()
        times.append((time.perf_counter() - start) * 1e3)
    return {"ms": times}


_COMMANDS = {"outputs": _outputs, "time": _time}


# -- in the parent -----------------------------------------------------------------------------------------------------


class Contender:
    """A child process that speaks the protocol; a context manager, which ends it."""

    def __init__(self, command: Sequence[str]):
        self._stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env=with_all_cores(),
        )

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._stderr.close()

    def load(self, row: Row, folder: str) -> dict[str, float]:
        """`seconds` from the command until the first outputs were there, and the contender's own facts."""
        return self._ask(do="load", row=row.name, batch=row.batch, training=row.training, folder=folder)

    def outputs(self) -> list[np.ndarray]:
        """The first outputs; in training those and the first update of each parameter."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "outputs.npz")
            self._ask(do="outputs", path=path)
            with np.load(path) as arrays:
                return [arrays[f"arr_{i}"] for i in range(len(arrays.files))]

    def time(self, seconds: float) -> list[float]:
        """Milliseconds of one call after the other, for about so long."""
        return self._ask(do="time", seconds=seconds)["ms"]

    def _ask(self, **command: Any) -> dict[str, Any]:
        """Raises Failed with what the contender said last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed(f"ended with status {self._process.wait()}: {self._last_words()}")
        return json.loads(line)

    def _last_words(self) -> str:
        """The exception's line, after which some libraries still give advice; else the last line."""
        self._stderr.seek(0)
        lines = [line for line in self._stderr.read().splitlines() if line.strip()]
        named = [line for line in lines if re.match(r"[A-Za-z_][\w.]*: ", line)]
        return (named or lines or ["(it said nothing)"])[-1]
