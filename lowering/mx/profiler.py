"""`mx.profiler`: MXNet's profiler over `jax.profiler`. It traces what JAX and XLA do while it runs, and what a script
marks.

`dump` writes a Chrome trace (chrome://tracing). Its operators are XLA's, which are named as in the compiled program,
and JAX's primitives where NumPy evaluates a program.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import jax

from lowering.host.evaluator import profiled
from lowering.messages.counts import checks_flags
from lowering.mx.shared_arguments import explained_by
from symjax_nnvm.errors import CallError, MXNetError, refuse_unknown
from symjax_nnvm.io.files import path_text, write_file
from symjax_nnvm.tables import table_text

_SETTINGS = (
    "filename", "profile_all", "profile_symbolic", "profile_imperative", "profile_memory", "profile_api",
    "continuous_dump", "dump_period", "aggregate_stats", "profile_process", "gpu_memory_profile_filename_prefix",
)  # fmt: skip
_SORTS = {"total": 1, "avg": 4, "min": 2, "max": 3, "count": 0}
_COLUMNS = ("Count", "Total", "Min", "Max", "Avg")


class _Profiler:
    """The file that is written, the folder of a trace that is being taken, and the events of those that were."""

    def __init__(self):
        self.filename = "profile.json"
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.is_on = False
        self.events: list[dict[str, Any]] = []
        self.began = time.perf_counter()

    def start(self) -> None:
        """Begin a trace, unless one is being taken."""
        if self.folder is None:
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0
            self.folder = tempfile.TemporaryDirectory()
            self._offset = 1e6 * (time.perf_counter() - self.began)
            profiled.set()
            jax.profiler.start_trace(self.folder.name, profiler_options=options)

    def stop(self) -> None:
        """End it, and keep its events, in microseconds since the module was imported."""
        if self.folder is None:
            return
        folder, self.folder = self.folder, None
        with folder:
            jax.profiler.stop_trace()
            profiled.clear()
            for path in sorted(Path(folder.name).rglob("*.trace.json.gz")):
                events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
                self.events += [{**e, "ts": e["ts"] + self._offset} if "ts" in e else e for e in events if e]

    def so_far(self) -> list[dict[str, Any]]:
        """Return the events until now; a running trace continues."""
        if self.folder is not None:
            self.stop()
            self.start()
        return self.events


_profiler = _Profiler()


def set_config(**kwargs: Any) -> None:
    """Set the profiler's configuration.

    Args:
        kwargs: `filename` of the trace, by default "profile.json". Other settings of MXNet's are accepted and ignored:
            JAX traces everything.

    Raises:
        MXNetError: a keyword is not a setting of MXNet's.
    """
    refuse_unknown(MXNetError, "The profiler has no such setting", kwargs, _SETTINGS, "settings")
    _profiler.filename = path_text(kwargs.get("filename", _profiler.filename), "filename")


class ProfilerStateError(CallError, KeyError):
    """A state that the profiler does not have."""


@checks_flags
def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Start or stop the profiler.

    Args:
        state: "run" or "stop".
        profile_process: accepted and ignored.

    Raises:
        ProfilerStateError: the state is another word; the error is a KeyError, too.
    """
    if state not in ("run", "stop"):
        raise ProfilerStateError("There is no such state", expected="'run' or 'stop'", got=f"{state!r:.80}")
    _profiler.is_on = state == "run"
    (_profiler.start if _profiler.is_on else _profiler.stop)()


def start(profile_process: str = "worker") -> None:
    """Begin to trace."""
    set_state("run", profile_process)


def stop(profile_process: str = "worker") -> None:
    """End it."""
    set_state("stop", profile_process)


def pause(profile_process: str = "worker") -> None:
    """Leave out everything until `resume`."""
    _profiler.stop()


def resume(profile_process: str = "worker") -> None:
    """Continue after `pause`."""
    if _profiler.is_on:
        _profiler.start()


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write the trace to the configured file.

    Args:
        finished: stop the profiler as well.
        profile_process: accepted and ignored.

    Raises:
        OSError: the file cannot be written.
    """
    if finished:
        stop()
    text = json.dumps({"displayTimeUnit": "ms", "traceEvents": _profiler.so_far()})
    write_file(_profiler.filename, text)


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:
    """Return how often operators and a script's own marks ran, and for how many milliseconds.

    Args:
        reset: clear the numbers afterwards.
        format: "table" or "json".
        sort_by: the column to sort by.
        ascending: sort upwards.

    Raises:
        MXNetError: a word is another one.
    """
    for name, value, choices in (("format", format, ("table", "json")), ("sort_by", sort_by, tuple(_SORTS))):
        if value not in choices:
            raise MXNetError(
                "dumps does not support this value", param=name, expected=f"one of {choices}", got=repr(value)
            )
    times: dict[str, dict[str, list[float]]] = {}
    for event in _profiler.so_far():
        arguments = event.get("args", {})
        category = arguments.get("category", "operator" if "hlo_op" in arguments else None)
        if event.get("ph") == "X" and category is not None:
            times.setdefault(category, {}).setdefault(event["name"], []).append(event["dur"] / 1e3)
    if reset:
        _profiler.events = []

    def row(durations: list[float]) -> tuple[float, ...]:
        return len(durations), sum(durations), min(durations), max(durations), sum(durations) / len(durations)

    rows = {
        category: sorted(
            ((name, *row(durations)) for name, durations in named.items()),
            key=lambda cells: cells[1 + _SORTS[sort_by]],
            reverse=not ascending,
        )
        for category, named in times.items()
    }
    if format == "json":
        by_category = {
            category: {name: dict(zip(_COLUMNS, cells, strict=True)) for name, *cells in entries}
            for category, entries in rows.items()
        }
        return json.dumps({"Time": by_category, "Memory": {}, "Unit": {"Time": "ms", "Memory": "kB"}}, indent=4)
    parts = ["Profile Statistics."]
    for category, entries in rows.items():
        cells = [(name, str(count), *(f"{value:.4f}" for value in values)) for name, count, *values in entries]
        parts += [category, table_text(("Name", "Count", "Total ms", "Min ms", "Max ms", "Avg ms"), cells, right=5)]
    return "\n".join(parts) + "\n"


# -- names of MXNet 1.0 ------------------------------------------------------------------------------------------------


def _deprecated(name: str, now: str) -> None:
    warnings.warn(f"profiler.{name}() is deprecated. Please use profiler.{now}() instead", stacklevel=3)


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """Call `set_config`, with a warning."""
    _deprecated("profiler_set_config", "set_config")
    set_config(filename=filename)


def profiler_set_state(state: str = "stop") -> None:
    """Call `set_state`, with a warning."""
    _deprecated("profiler_set_state", "set_state")
    set_state(state)


def dump_profile() -> None:
    """Call `dump`, with a warning."""
    _deprecated("dump_profile", "dump")
    dump(True)


# -- what scripts mark -------------------------------------------------------------------------------------------------


class _Named:
    """A named range, or mark, that a script adds to the trace.

    Args:
        domain: its domain.
        name: its name.
    """

    def __init__(self, domain: Domain | None, name: str):
        self.domain, self.name = domain, name

    def _span(self, **arguments: Any) -> jax.profiler.TraceAnnotation:
        kind = type(self).__name__.lower()
        category = kind if self.domain is None else f"{self.domain}:{kind}"
        return jax.profiler.TraceAnnotation(self.name, category=category, **arguments)

    def __str__(self) -> str:
        return self.name


class _Span(_Named):
    """A time, from `start` to `stop` in one thread."""

    def __init__(self, domain: Domain | None, name: str):
        super().__init__(domain, name)
        self._open: list[jax.profiler.TraceAnnotation] = []

    def start(self) -> None:
        """Begin it."""
        span = self._span()
        span.__enter__()
        self._open.append(span)

    def stop(self) -> None:
        """End what began last; nothing, where nothing did."""
        if self._open:
            self._open.pop().__exit__(None, None, None)


@explained_by(_Named)
class Task(_Span):
    """A span of time in which a task runs."""


@explained_by(_Named)
class Frame(_Span):
    """A span of time in which a frame is made."""


class Event(_Span):
    """A span of time without a domain.

    Args:
        name: its name.
    """

    def __init__(self, name: str):
        super().__init__(None, name)


@explained_by(_Named)
class Counter(_Named):
    """A number that the trace shows whenever it changes.

    Args:
        value: the first value; None for none.
    """

    def __init__(self, domain: Domain, name: str, value: int | None = None):
        super().__init__(domain, name)
        self._value = 0
        if value is not None:
            self.set_value(value)

    def set_value(self, value: int) -> None:
        """Change the number."""
        self._value = int(value)
        with self._span(value=self._value):
            pass

    def increment(self, delta: int = 1) -> None:
        """Add to it."""
        self.set_value(self._value + int(delta))

    def decrement(self, delta: int = 1) -> None:
        """Subtract from it."""
        self.set_value(self._value - int(delta))

    def __iadd__(self, delta: int) -> Counter:
        self.increment(delta)
        return self

    def __isub__(self, delta: int) -> Counter:
        self.decrement(delta)
        return self


@explained_by(_Named)
class Marker(_Named):
    """A moment that the trace shows."""

    def mark(self, scope: str = "process") -> None:
        """Mark the present moment."""
        with self._span(scope=scope):
            pass


class Domain:
    """A name for a group of marks.

    Args:
        name: the name.
    """

    def __init__(self, name: str):
        self.name = name

    def __str__(self) -> str:
        return self.name

    def new_task(self, name: str) -> Task:
        """Return a new task of the domain."""
        return Task(self, name)

    def new_frame(self, name: str) -> Frame:
        """Return a new frame of the domain."""
        return Frame(self, name)

    def new_counter(self, name: str, value: int | None = None) -> Counter:
        """Return a new counter of the domain, with its first value."""
        return Counter(self, name, value)

    def new_marker(self, name: str) -> Marker:
        """Return a new marker of the domain."""
        return Marker(self, name)
