"""How all of these scripts time contenders against each other: they take turns, and a median is taken of each round.

A contender is a function of seconds that returns milliseconds of calls: `in_process(call)`, or the method `time` of a
`Contender`, a child process that speaks JSON lines. Such a child calls `serve` with a function that loads what is asked
for and returns a `Loaded`; the commands are

    {"do": "load", …}                  → {"seconds": until it was ready, …: facts}
    {"do": "outputs", "path": …}       → {}; the arrays are there as .npz
    {"do": "time", "seconds": …}       → {"ms": [of each call]}

A child that fails just ends: the exception at the end of its traceback is what the table shows. Each contender has all
cores that the process may use: MXNet takes half of the logical ones unless OMP_NUM_THREADS says otherwise, onnxruntime
a thread for each physical one unless its session does; XLA takes all. The interpreters of MXNet and onnxruntime import
this file, so it needs NumPy alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Contender", "Failed", "Loaded", "compare", "conditions", "cores", "fresh", "in_process", "medians"]
__all__ += ["options_of", "print_table", "ratio", "serve", "take_turns", "with_all_cores"]

# -- the protocol ------------------------------------------------------------------------------------------------------


def in_process(call: Callable[[], Any]) -> Callable[[float], list[float]]:
    """A contender in this process. call: runs once, and returns when its results are there.

    A turn is one call that is not timed, since others had the caches; then as many as fit into the time, at least one.
    """

    def turn(seconds: float) -> list[float]:
        call()
        times: list[float] = []
        begun = time.perf_counter()
        while not times or time.perf_counter() - begun < seconds:
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e3)
        return times

    return turn


def take_turns(
    ways: Mapping[str, Callable[[float], Sequence[float]]],
    rounds: int,
    *,
    seconds: float = 0.05,
    pause: float = 0.0,
    errors: dict[str, str] | None = None,
) -> dict[str, list[float]]:
    """The median ms of each contender's turn in each round; the first of a round moves on from round to round.

    pause: seconds before a turn, in which the threads of the others fall asleep. errors: takes what a contender that
    fails says; it is left out from then on.
    """
    names, rows = list(ways), {name: [] for name in ways}
    for index in range(rounds):
        first = index % max(1, len(names))
        for name in names[first:] + names[:first]:
            time.sleep(pause)
            try:
                rows[name].append(statistics.median(ways[name](seconds)))
            except Failed as failure:
                if errors is None:
                    raise
                errors[name] = str(failure)
                del rows[name]
                names.remove(name)
    return rows


def medians(rows: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The median of each contender's rounds."""
    return {name: statistics.median(times) for name, times in rows.items()}


def ratio(rows: Mapping[str, Sequence[float]], name: str, to: str) -> float:
    """The median of the rounds' ratios of one contender to another: what slows a round slows both."""
    return statistics.median(a / b for a, b in zip(rows[name], rows[to], strict=True))


# -- contenders in processes of their own ------------------------------------------------------------------------------


def cores() -> int:
    """How many cores the process may use (`taskset` counts)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def with_all_cores() -> dict[str, str]:
    """The environment of a child: our modules, and as many OpenMP threads as cores unless the caller said otherwise."""
    paths = filter(None, (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")))
    return {"OMP_NUM_THREADS": str(cores()), **os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def fresh(
    script: str, *arguments: object, timeout: float | None = None, environment: Mapping[str, str] | None = None
) -> Any:
    """What a script prints as JSON on its last line, in a process of its own. Raises subprocess.SubprocessError."""
    command = [sys.executable, script, *map(str, arguments)]
    env = with_all_cores() | dict(environment or {})
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=timeout)
    return json.loads(done.stdout.splitlines()[-1])


@dataclass(frozen=True)
class Loaded:
    """What a child has ready. call: runs it once and waits until its results are there.

    outputs: arrays to compare, computed when it was loaded, before any timed call. facts: further numbers to report.
    """

    call: Callable[[], Any]
    outputs: Sequence[np.ndarray] = ()
    facts: Mapping[str, float] = field(default_factory=dict)


class Failed(Exception):
    """What a child says, in one line, when it cannot go on."""


def serve(load: Callable[..., Loaded]) -> None:
    """Answer commands until the input ends. Whatever libraries print goes to stderr, the answers alone to stdout.

    load: gets what `Contender.load` was given, by name.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    loaded = Loaded(lambda: None)
    for line in sys.stdin:
        command = json.loads(line)
        answer: dict[str, Any] = {}
        do = command.pop("do")
        if do == "load":
            start = time.perf_counter()
            loaded = load(**command)
            answer = {"seconds": time.perf_counter() - start, **loaded.facts}
        elif do == "outputs":
            np.savez(command["path"], *loaded.outputs)
        else:
            answer = {"ms": in_process(loaded.call)(command["seconds"])}
        print(json.dumps(answer), file=answers, flush=True)


class Contender:
    """A child process that speaks the protocol; a context manager, which ends it."""

    def __init__(self, command: Sequence[str]):
        with ExitStack() as stack:
            self._errors = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
            self._process = subprocess.Popen(command, text=True, env=with_all_cores(), **pipes)
            self._stack = stack.pop_all()

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._stack.close()

    def load(self, **what: Any) -> dict[str, float]:
        """`seconds` from the command until the first outputs were there, and the contender's own facts."""
        return self._ask("load", **what)

    def outputs(self) -> list[np.ndarray]:
        """The first outputs; in training those and the first update of each parameter."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "outputs.npz")
            self._ask("outputs", path=path)
            with np.load(path) as arrays:
                return [arrays[f"arr_{i}"] for i in range(len(arrays.files))]

    def time(self, seconds: float) -> list[float]:
        """Milliseconds of one call after the other, for about so long."""
        return self._ask("time", seconds=seconds)["ms"]

    def _ask(self, do: str, **command: Any) -> dict[str, Any]:
        """Raises Failed with what the child said last."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **command}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed(f"ended with status {self._process.wait()}: {self._last_words()}")
        return json.loads(line)

    def _last_words(self) -> str:
        """The exception's line, after which some libraries still give advice; else the last line."""
        self._errors.seek(0)
        lines = [line for line in self._errors.read().splitlines() if line.strip()]
        named = [line for line in lines if re.match(r"[A-Za-z_][\w.]*: ", line)]
        return (named or lines or ["(it said nothing)"])[-1]


# -- the command line and what is printed above a table ----------------------------------------------------------------


def options_of(about: str | None, rounds: int) -> argparse.ArgumentParser:
    """A script's parser, with its docstring and the number of rounds."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser


_VERSION = "from importlib.metadata import version; print({name!r}, version({name!r}))"


def conditions(*others: tuple[str, str | None]) -> str:
    """The command, and threads and versions. others: (package, the Python that has it; None: it takes no part)."""
    versions = []
    for name, python in (*others, ("jaxlib", sys.executable)):
        if python:
            command = [python, "-c", _VERSION.format(name=name)]
            versions.append(subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip())
    threads = f"threads: {cores()} (OMP_NUM_THREADS={with_all_cores()['OMP_NUM_THREADS']})"
    return f"python {shlex.join(sys.argv)}\n{threads}; {', '.join(filter(None, versions))}"


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *others: tuple[str, str | None], left: int = 1
) -> None:
    """The conditions and a table; each row goes to stderr as soon as it is measured. left: columns that are text."""
    from symjax_nnvm.tables import table_text  # which the interpreters of the others do not have

    print(conditions(*others), flush=True)
    measured = []
    for row in rows:
        if not isinstance(rows, Sequence):
            print(*row, sep="  ", file=sys.stderr, flush=True)
        measured.append(row)
    print(table_text(columns, measured, right=len(columns) - left), flush=True)


# -- a whole script ----------------------------------------------------------------------------------------------------


def compare(
    about: str | None,
    names: Sequence[str],
    ways: Sequence[str],
    rows: Mapping[tuple[str, ...], Callable[[], Mapping[str, Callable[[], Any]]]],
    load_in_mxnet: Callable[..., Loaded] | None = None,
    *,
    rounds: int,
    seconds: float = 0.05,
    pause: float = 0.0,
) -> None:
    """Be a script that runs the same work in several ways, in turn: it prints milliseconds of each, and the ratios of
    the first way to the others with their geometric means.

    names: of the columns at the left. rows: what is in those → a function that makes the calls ready, by ways; a way
    may be missing. load_in_mxnet: gets what is in those columns, in the interpreter that --mxnet names.
    """
    if load_in_mxnet and sys.argv[1:] == ["--serve"]:
        return serve(lambda cells: load_in_mxnet(*cells))
    parser = options_of(about, rounds)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="rows that have one of these in them")
    if load_in_mxnet:
        parser.add_argument("--mxnet", metavar="PYTHON", help="of an environment with MXNet 1.9.1")
    options = parser.parse_args()
    import lowering  # which MXNet's interpreter does not have

    lowering.keep_memory()  # as docs/guide/training.md advises; MXNet keeps freed memory by itself
    python = options.mxnet if load_in_mxnet else None
    shown = [*ways, "MXNet"] if python else list(ways)
    ratios: dict[str, list[float]] = {way: [] for way in shown[1:]}

    def lines() -> Iterable[Sequence[str]]:
        for cells, make in rows.items():
            if options.only and not any(text in cell for text in options.only for cell in cells):
                continue
            with ExitStack() as stack:
                turns = {way: in_process(call) for way, call in make().items()}
                if python:
                    child = stack.enter_context(Contender([python, sys.argv[0], "--serve"]))
                    try:
                        child.load(cells=cells)
                        turns["MXNet"] = child.time
                    except Failed as failure:
                        print(f"MXNet cannot run {cells}: {failure}", file=sys.stderr)
                times = take_turns(turns, options.rounds, seconds=seconds, pause=pause)
            ms = medians(times)
            others = {way: ratio(times, shown[0], way) for way in shown[1:] if way in times}
            for way, value in others.items():
                ratios[way].append(value)
            figures = [f"{ms[way]:.2f}" if way in ms else "" for way in shown]
            yield [*cells, *figures, *(f"{others[way]:.2f}" if way in others else "" for way in shown[1:])]

    columns = [*names, *(f"{way} ms" for way in shown), *(f"of {way}" for way in shown[1:])]
    print_table(columns, lines(), ("mxnet", python), left=len(names))
    for way, values in ratios.items():
        if values:
            mean = statistics.geometric_mean(values)
            print(f"{shown[0]} of {way}: geometric mean {mean:.2f}, largest {max(values):.2f}")
