"""The state of `mx.autograd`: whether this thread records, whether it trains, and the entries of arrays on the tape."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax

from lowering.executor.arrays import writing


class _State(threading.local):
    recording = False
    training = False


_state = _State()


def is_recording() -> bool:
    """Whether operators called in this thread are recorded."""
    return _state.recording


def is_training() -> bool:
    """Whether operators called in this thread run as in training."""
    return _state.training


def set_recording(is_recording: bool) -> bool:
    """Record from now on, or do not; returns what was before."""
    before, _state.recording = _state.recording, bool(is_recording)
    return before


def set_training(train_mode: bool) -> bool:
    """Train from now on, or do not; returns what was before."""
    before, _state.training = _state.training, bool(train_mode)
    return before


@dataclass(eq=False, slots=True)
class Leaf:
    """An array that gradients are wanted of. cell: of the array that holds the gradient. fresh: it was computed since a
    caller set this to False."""

    cell: Any
    grad_req: str
    fresh: bool = False

    def keep(self, gradient: jax.Array, grad_req: str) -> None:
        """Hold a gradient, or with "add" its sum with the one that is there."""
        with writing(self.cell):
            kept = self.cell.show() + gradient if grad_req == "add" else gradient
            self.cell.assign(kept, cast=True)


class ByPython:
    """What computes its gradients by itself: `backward(*heads)` returns those of its inputs, one or a list."""

    backward: Callable[..., Any]


@dataclass(eq=False, slots=True)
class Call:
    """An operator, or several, that was called while recording.

    expression: what was computed (`eager.Expression`), or a `ByPython`. values: of its
    variables, in their order. entries: where each value came from, None for constants. key: of its random numbers.
    outputs: their values. states: the arrays that it writes, by name. number: which call it was. forgotten: it was
    differentiated, and cannot be again.
    """

    expression: Any
    values: Sequence[jax.Array]
    entries: Sequence[Entry | None]
    key: jax.Array | None
    outputs: Sequence[jax.Array]
    states: Mapping[str, Any] = field(default_factory=dict)
    number: int = field(default_factory=itertools.count().__next__)
    forgotten: bool = False

    def forget(self) -> None:
        """Free what differentiating the call needs."""
        self.forgotten = True
        self.expression, self.values, self.entries, self.outputs, self.states = None, (), (), (), {}


Entry = Leaf | tuple[Call, int]
"""Where an array on the tape came from: a leaf, or an output of a call, by number."""


def origin(array: Any) -> Entry | None:
    """Where an NDArray that is used now came from; None for a constant, and for what was computed by a call that was
    differentiated: as in MXNet, no gradient flows into the pass before."""
    entry = array.entry
    return None if type(entry) is tuple and entry[0].forgotten else entry
