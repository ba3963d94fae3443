"""Segments: a program with operators that are Python, or of several devices, run piece by piece on arrays that have
values.

The operators of one device between two that are Python are compiled as one function; the Python runs in the thread of
the caller, which no program waits for (`lowering/core/python_calls.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from itertools import groupby
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from lowering.core.steps import Environment, Recomputation, Running, Step
from lowering.host.staged import Account, Staged
from lowering.xla.compile_options import jit
from lowering.xla.platforms import kind_of

__all__ = ["Device", "Segments", "by_way", "is_traced"]

Device = Any
"""A `jax.Device`."""

_NOTHING: Mapping[int, Any] = {}

_way: ContextVar[Account | str | None] = ContextVar("way", default=None)


@contextmanager
def _going(way: Account | str | None) -> Iterator[None]:
    """Decide how the segments of the next program run: "quick" or "full", or, with an account, as first calls that are
    counted there: evaluated, or compiled quickly. Otherwise each is compiled when its own calls have cost that."""
    token = _way.set(way)
    try:
        yield
    finally:
        _way.reset(token)


def by_way(way: Account | str | None, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose segments run by a way; None: by what is decided around its calls."""
    if way is None:
        return function

    @wraps(function)
    def run(*args: Any) -> Any:
        with _going(way):
            return function(*args)

    return run


Steps = Sequence[Step | Recomputation]


def is_traced(env: Sequence[Any], key: Any) -> bool:
    """Return whether a run over these arrays is traced: by what they are, or because JAX traces all calls now."""
    if isinstance(key, Tracer) or any(isinstance(value, Tracer) for value in env):
        return True
    return isinstance(jax.lax.neg(np.float32(0)), Tracer)


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """Holds steps in a row: one or several that are Python, or several that are not. device: where they run; None:
    where their arrays are. inputs: the slots that they read and do not fill. outputs: those of the slots they fill
    that are read later."""

    steps: Steps
    python: bool
    device: Device | None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def fill(
        self, running: Running, values: Sequence[Any], key: jax.Array | None, onto: Mapping[int, Any] = _NOTHING
    ) -> list[Any]:
        """Run the segment's steps on the values of its inputs, and return those of its outputs. onto: by slot, arrays
        to which steps of Python add their results."""
        env: dict[int, Any] = defaultdict(lambda: None, zip(self.inputs, values, strict=True))
        env.update(onto)
        for step in self.steps:
            step.run(running, env, key)
        return [env[slot] for slot in self.outputs]


class Segments:
    """The steps of one program in segments, each compiled at its first run. platform: on which they run. devices: of
    steps by node number, where several devices run them."""

    def __init__(self, platform: str | None, devices: Mapping[int, Device] = _NOTHING):
        self._platform, self._devices = platform, devices
        self._split: dict[Any, list[tuple[_Segment, Callable[..., list[Any]]]]] = {}

    def run(
        self, steps: Steps, running: Running, env: Environment, key: jax.Array | None, slots: Collection[int] | None
    ) -> None:
        """Fill the slots of an environment. slots: those that the caller reads; None: all of them."""
        request = (tuple(steps), None if slots is None else frozenset(slots))
        segments = self._split.get(request)
        if segments is None:
            segments = self._split[request] = [(segment, self._runs(segment)) for segment in self._cut(*request)]
        copies: dict[tuple[int, Device], Any] = {}
        for segment, run in segments:
            onto = {slot: env[slot] for slot in segment.outputs if env[slot] is not None} if segment.python else None
            values = [env[slot] for slot in segment.inputs]
            if (device := segment.device) is not None:
                for slot, value in zip(segment.inputs, values, strict=True):
                    if (slot, device) not in copies:
                        copies[slot, device] = jax.device_put(value, device)
                values = [copies[slot, device] for slot in segment.inputs]
            filled = run(running, values, key, *([onto] if onto else []))
            for slot, value in zip(segment.outputs, filled, strict=True):
                env[slot] = value

    @property
    def counts(self) -> bool:
        """Whether calls are counted: on one device."""
        return not self._devices

    def _cut(self, steps: Steps, slots: Collection[int] | None) -> list[_Segment]:
        parts = [
            (kind, list(part)) for kind, part in groupby(steps, lambda step: (_is_python(step), self._device(step)))
        ]
        segments: list[_Segment] = []
        read_later = set(slots or ())
        for (python, device), part in reversed(parts):
            filled = dict.fromkeys(slot for step in part for slot in step.outputs)
            inputs = tuple(dict.fromkeys(slot for step in part for slot in _read(step) if slot not in filled))
            outputs = tuple(slot for slot in filled if slots is None or slot in read_later)
            segments.append(_Segment(part, python, device, inputs, outputs))
            read_later.update(inputs)
        return segments[::-1]

    def _device(self, step: Step | Recomputation) -> Device | None:
        return self._devices.get(step.steps[0].nid)

    def _runs(self, segment: _Segment) -> Callable[..., list[Any]]:
        """Return what runs a segment for (running, values, key)."""
        if segment.python:

            def run_python(*args: Any) -> list[Any]:
                with _going(None):  # which may run programs of its own
                    return segment.fill(*args)

            return run_python
        platform, device = self._platform, segment.device
        if device is not None:
            jitted: dict[Running, Callable[..., list[Any]]] = {}

            def run_there(running: Running, values: Sequence[Any], key: jax.Array | None) -> list[Any]:
                if running not in jitted:
                    jitted[running] = jit(partial(segment.fill, running), platform=kind_of(device))
                with jax.default_device(device):
                    return jitted[running](values, jax.device_put(key, device))

            return run_there
        staged: dict[tuple[Running, Account | str | None], Staged] = {}

        def run(running: Running, values: Sequence[Any], key: jax.Array | None) -> list[Any]:
            way = _way.get()
            if (running, way) not in staged:
                filled = partial(segment.fill, running)
                accounts, effort = ([way], None) if isinstance(way, Account) else (None, way)
                compiles = partial(jit, filled, platform=platform, kind="full" if accounts is None else "quick")
                staged[running, way] = Staged(filled, lambda kept: compiles(kept=kept), accounts, effort)
            return staged[running, way](values, key)

        return run


def _is_python(step: Step | Recomputation) -> bool:
    return any(one.python for one in step.steps)


def _read(step: Step | Recomputation) -> tuple[int, ...]:
    return (*step.inputs, *step.after) if isinstance(step, Recomputation) else step.inputs
