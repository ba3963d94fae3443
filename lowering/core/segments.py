"""Segments: a program with operators that are Python, run piece by piece on arrays that have values.

The operators between two that are Python are compiled as one function; the Python runs in the thread of the
caller, which no program waits for (`lowering/core/python_calls.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from lowering.core.steps import Environment, Recomputation, Running, Step
from lowering.host.staged import Staged
from lowering.xla.compile_options import jit

__all__ = ["Segments", "is_traced"]

_NOTHING: Mapping[int, Any] = {}

Steps = Sequence[Step | Recomputation]


def is_traced(env: Sequence[Any], key: Any) -> bool:
    """Return whether a run over these arrays is traced: by what they are, or because JAX traces all calls now."""
    if isinstance(key, Tracer) or any(isinstance(value, Tracer) for value in env):
        return True
    return isinstance(jax.lax.neg(np.float32(0)), Tracer)


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """Holds steps in a row: one or several that are Python, or several that are not. inputs: the slots that they read
    and do not fill. outputs: those of the slots they fill that are read later."""

    steps: Steps
    python: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def fill(
        self, running: Running, values: Sequence[Any], key: jax.Array | None, onto: Mapping[int, Any] = _NOTHING
    ) -> list[Any]:
        """Return the values of the outputs from those of the inputs. onto: what steps of Python are to add theirs to,
        by slot."""
        env: dict[int, Any] = defaultdict(lambda: None, zip(self.inputs, values, strict=True))
        env.update(onto)
        for step in self.steps:
            step.run(running, env, key)
        return [env[slot] for slot in self.outputs]


class Segments:
    """The steps of one program in segments, each compiled at its first run. platform: on which they run."""

    def __init__(self, platform: str | None):
        self._platform = platform
        self._split: dict[Any, list[tuple[_Segment, Callable[..., list[Any]]]]] = {}

    def run(
        self, steps: Steps, running: Running, env: Environment, key: jax.Array | None, wanted: Collection[int] | None
    ) -> None:
        """Fill the slots of an environment that are wanted; None: all of them."""
        asked = (tuple(steps), None if wanted is None else frozenset(wanted))
        segments = self._split.get(asked)
        if segments is None:
            segments = self._split[asked] = [(segment, self._runs(segment)) for segment in _segments(*asked)]
        for segment, run in segments:
            onto = {slot: env[slot] for slot in segment.outputs if env[slot] is not None} if segment.python else None
            filled = run(running, [env[slot] for slot in segment.inputs], key, *([onto] if onto else []))
            for slot, value in zip(segment.outputs, filled, strict=True):
                env[slot] = value

    def _runs(self, segment: _Segment) -> Callable[..., list[Any]]:
        """Return what runs a segment for (running, values, key)."""
        if segment.python:
            return segment.fill
        platform = self._platform
        staged: dict[Running, Staged] = {}

        def run(running: Running, values: Sequence[Any], key: jax.Array | None) -> list[Any]:
            if running not in staged:
                filled = partial(segment.fill, running)
                staged[running] = Staged(filled, lambda kept: jit(filled, platform=platform, kept=kept))
            return staged[running](values, key)

        return run


def _segments(steps: Steps, wanted: Collection[int] | None) -> list[_Segment]:
    parts = [(python, list(part)) for python, part in groupby(steps, _is_python)]
    segments: list[_Segment] = []
    read_later = set(wanted or ())
    for python, part in reversed(parts):
        filled = dict.fromkeys(slot for step in part for slot in step.outputs)
        inputs = tuple(dict.fromkeys(slot for step in part for slot in _read(step) if slot not in filled))
        outputs = tuple(slot for slot in filled if wanted is None or slot in read_later)
        segments.insert(0, _Segment(part, python, inputs, outputs))
        read_later.update(inputs)
    return segments


def _is_python(step: Step | Recomputation) -> bool:
    return any(one.python for one in step.steps)


def _read(step: Step | Recomputation) -> tuple[int, ...]:
    return (*step.inputs, *step.after) if isinstance(step, Recomputation) else step.inputs
