"""The state of `mx.autograd`: whether this thread records, whether it trains, and the entries of arrays on the tape."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import jax

from lowering.executor.bound_arrays import writing
from lowering.executor.jitted_functions import ExecutorFunctions
from symjax_nnvm.symbol.symbol import Symbol

Arrays = Mapping[str, jax.Array]
ArrayT = TypeVar("ArrayT", bound=Any)


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


class Scope:
    """Records and trains so inside the block; None: as before."""

    __slots__ = ("_before", "_record", "_train")

    def __init__(self, record: bool | None, train: bool | None):
        self._record = None if record is None else bool(record)
        self._train = None if train is None else bool(train)
        self._before: list[tuple[bool, bool]] = []  # a block may be entered again

    def __enter__(self) -> None:
        self._before.append((_state.recording, _state.training))
        if self._train is not None:
            _state.training = self._train
        if self._record is not None:
            _state.recording = self._record

    def __exit__(self, *_: object) -> None:
        _state.recording, _state.training = self._before[-1]  # no call is before it, where an interrupt is raised
        del self._before[-1]


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
            total = self.cell.show() + gradient if grad_req == "add" else gradient
            self.cell.assign(total, cast=True)


class Given(NamedTuple):
    """What a call gives to a program of several. values, outputs: None where the program computes them."""

    values: Sequence[Any]
    drawn: Any
    outputs: Any
    residuals: Any = None


class Function:
    """What computes calls, an expression or a block, and its gradients, which MXGradient makes of its symbol.

    names: of its inputs. symbol: what it computes of them. functions: the executor's, of a block. family: equal for
    those that compute the same, also of other shapes.
    """

    symbol: Symbol
    names: Sequence[str]
    functions: ExecutorFunctions | None
    family: Any

    def gradients(
        self, wrt: tuple[str, ...], call: Call | Given, heads: Sequence[jax.Array], states: Arrays, onto: Arrays
    ) -> tuple[Arrays, Arrays]:
        """Gradients by name, and states that computing them wrote.

        heads: the gradients of the outputs. states: as they are now, by name. onto: gradients that Python adds to, by
        name (`summed_by_python`).
        """
        raise NotImplementedError

    def traced_gradients(self, wrt: tuple[str, ...], call: Call | Given, heads: Sequence[jax.Array]) -> Arrays:
        """The same gradients in a program of several calls."""
        return self.gradients(wrt, call, heads, {}, {})[0]

    def summed_by_python(self, wrt: tuple[str, ...]) -> Collection[str]:
        """The inputs whose gradients Python itself can add to what there is."""
        return ()


class ByPython:
    """What computes its gradients by itself: `backward(*heads)` returns those of its inputs, one or a list.

    _dialect: of the heads that it takes; None for the classic one.
    """

    backward: Callable[..., Any]
    _dialect: str | None = None


@dataclass(eq=False, slots=True)
class Call:
    """An operator, or several, that was called while recording.

    function: what computed it, the same for the same calls of every step: a `Function` or a `ByPython`. values: of its
    inputs, in their order. entries: where each value came from, None for constants. drawn: what its random numbers were
    drawn from. outputs: their values. states: the arrays that it writes, by name. residuals: what the gradient reads
    besides. shown: the symbol that was called, where another one computes the same. number: which call it was.
    forgotten: it was differentiated, and cannot be again.
    """

    function: Any
    values: Sequence[jax.Array]
    entries: Sequence[Entry | None]
    drawn: Any
    outputs: Sequence[jax.Array]
    states: Mapping[str, Any] = field(default_factory=dict)
    residuals: Any = None
    shown: Symbol | None = None
    number: int = field(default_factory=itertools.count().__next__)
    forgotten: bool = False

    def made(self, arrays: list[ArrayT]) -> list[ArrayT]:
        """Note that NDArrays are its outputs, and return them."""
        for i, array in enumerate(arrays):
            array.entry = (self, i)
        return arrays

    def forget(self) -> None:
        """Free what differentiating the call needs."""
        self.forgotten = True
        self.function, self.values, self.entries, self.outputs, self.states = None, (), (), (), {}
        self.drawn = self.residuals = self.shown = None


Entry = Leaf | tuple[Call, int]
"""Where an array on the tape came from: a leaf, or an output of a call, by number."""


def origin(array: Any) -> Entry | None:
    """Where an NDArray that is used now came from; None for a constant, and for what was computed by a call that was
    differentiated: as in MXNet, no gradient flows into the pass before."""
    entry = array.entry
    return None if type(entry) is tuple and entry[0].forgotten else entry
