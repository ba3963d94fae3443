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
import inspect
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

__all__ = ["Contender", "Failed", "Loaded", "compare", "conditions", "cores", "fresh", "in_process", "measured"]
__all__ += ["medians", "print_table", "ratio", "run", "serve", "take_turns", "with_all_cores"]

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


def measured(make: Callable[[], Callable[[], Any]], wait: Callable[[Any], Any], seconds: float) -> Loaded:
    """What a child has ready when a device computes beside the host: a call that waits, and as facts milliseconds of
    one of calls in a row, `in_a_row`, and until one returns, `host`, of what fits into twice these seconds.

    make: returns a function that begins a call. wait: waits for what that returned.
    """
    call = make()
    times = in_process(lambda: wait(call()))(seconds)
    host: list[float] = []
    for _ in times:
        start = time.perf_counter()
        results = call()
        host.append((time.perf_counter() - start) * 1e3)
        wait(results)
    start = time.perf_counter()
    results = None
    for _ in times:
        results = call()
    wait(results)
    in_a_row = (time.perf_counter() - start) * 1e3 / len(times)
    return Loaded(lambda: wait(call()), facts={"in_a_row": in_a_row, "host": statistics.median(host)})


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
    function: Callable[..., Any],
    *arguments: object,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Any:
    """What a function of one of these scripts returns, as JSON has it, when a process of its own calls it.

    Raises subprocess.SubprocessError.
    """
    module, name = Path(inspect.getfile(function)).stem, function.__name__
    program = f"import json, sys; from benchmarks.{module} import {name}; "
    program += f"print(json.dumps({name}(*json.loads(sys.argv[1]))))"
    command = [sys.executable, "-c", program, json.dumps(arguments)]
    env = with_all_cores() | dict(environment or {})
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True, timeout=timeout)
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
            answer = {"seconds": time.perf_counter() - start} | dict(loaded.facts)
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

    @classmethod
    def worker(cls, backend: str, python: str | None = None) -> Contender:
        """One of the backends of `worker.py`. python: the interpreter that has its libraries; ours otherwise."""
        return cls([python or sys.executable, str(Path(__file__).with_name("worker.py")), backend])

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


def run(about: str | None, *functions: Callable[..., None]) -> None:
    """Be a script: call one of the functions, named on the command line if there are several.

    Their parameters are the options: those without a default are positional or, keyword-only, must be there; a default
    of False makes a flag; of a tuple, an option takes several values.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(call=functions[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND") if len(functions) > 1 else None
    for function in functions:
        lines = (function.__doc__ or "").splitlines()
        one = (
            commands.add_parser(function.__name__, help=lines[0], description=function.__doc__) if commands else parser
        )
        one.set_defaults(call=function)
        for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
            _add_option(one, name, parameter)
    options = vars(parser.parse_args())
    options.pop("call")(**options)


def _add_option(parser: argparse.ArgumentParser, name: str, parameter: inspect.Parameter) -> None:
    default, kind = parameter.default, parameter.annotation
    option = f"--{name.replace('_', '-')}"
    if default is False:
        parser.add_argument(option, action="store_true")
    elif isinstance(default, tuple):
        parser.add_argument(option, nargs="+", type=type(default[0]) if default else str, default=default)
    elif default is not inspect.Parameter.empty:
        parser.add_argument(option, type=str if default is None else type(default), default=default)
    elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        parser.add_argument(option, type=kind, required=True)
    else:
        parser.add_argument(name, type=kind)


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


# -- the same work in several ways -------------------------------------------------------------------------------------

Rows = Mapping[tuple[str, ...], Callable[[], Mapping[str, Callable[[], Any]]]]
"""What is in the columns at the left → a function that makes the calls ready, by ways; a way may be missing."""


def compare(
    names: Sequence[str],
    ways: Sequence[str],
    rows: Rows,
    backend: str,
    mxnet: str | None,
    only: Sequence[str],
    *,
    rounds: int,
    seconds: float,
    pause: float = 0.0,
) -> None:
    """Run the same work in several ways, in turn; print milliseconds of each, and the ratios of the first way to the
    others with their geometric means.

    names: of the columns at the left. backend: MXNet's side in `worker.py`, which gets what is in those columns. mxnet:
    its interpreter, if it takes part. only: words, one of which a row has at the left.
    """
    import lowering  # which MXNet's interpreter does not have

    lowering.keep_memory()  # as docs/guide/training.md advises; MXNet keeps freed memory by itself
    shown = [*ways, "MXNet"] if mxnet else list(ways)
    ratios: dict[str, list[float]] = {way: [] for way in shown[1:]}

    def lines() -> Iterable[Sequence[str]]:
        for cells, make in rows.items():
            if only and not any(word in cell for word in only for cell in cells):
                continue
            with ExitStack() as stack:
                turns = {way: in_process(call) for way, call in make().items()}
                if mxnet:
                    child = stack.enter_context(Contender.worker(backend, mxnet))
                    try:
                        child.load(cells=cells)
                        turns["MXNet"] = child.time
                    except Failed as failure:
                        print(f"MXNet cannot run {cells}: {failure}", file=sys.stderr)
                times = take_turns(turns, rounds, seconds=seconds, pause=pause)
            ms = medians(times)
            others = {way: ratio(times, shown[0], way) for way in shown[1:] if way in times}
            for way, value in others.items():
                ratios[way].append(value)
            figures = [f"{ms[way]:.2f}" if way in ms else "" for way in shown]
            yield [*cells, *figures, *(f"{others[way]:.2f}" if way in others else "" for way in shown[1:])]

    columns = [*names, *(f"{way} ms" for way in shown), *(f"of {way}" for way in shown[1:])]
    print_table(columns, lines(), ("mxnet", mxnet), left=len(names))
    for way, values in ratios.items():
        if values:
            mean = statistics.geometric_mean(values)
            print(f"{shown[0]} of {way}: geometric mean {mean:.2f}, largest {max(values):.2f}")
