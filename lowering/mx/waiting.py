"""Calls that wait: a compiled program that is called while recording runs when one of its outputs is read, or together
with its gradients, as one program, when it is differentiated first."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import jax

from lowering.executor.arrays import ArrayCell, Place
from lowering.mx.context import Context
from lowering.mx.ndarray.array import NDArray
from lowering.mx.recording import Call, Entry

_DEEPEST = 8
"""So many calls wait for each other; a longer chain runs."""

running = threading.RLock()
"""Held by who computes a call that waits, or has another one wait for it."""

_waiting: weakref.WeakSet[WaitingCall] = weakref.WeakSet()


def is_wide() -> bool:
    """Return whether this thread is in JAX's 64-bit mode."""
    return jax.config.jax_enable_x64  # pyright: ignore[reportAttributeAccessIssue]


Source = Any
"""What an input is computed from: a jax.Array, or (a call that waits, number of its output)."""


class WaitingCall(Call):
    """Records a call that is not computed yet. Its values and outputs are empty until `run`.

    expression: has `residuals`, which `run` sets; what its random numbers are `drawn` from; and a `function`, the same
    object for the same calls of every step, with `names` and with two functions that may be traced: `forward(values,
    drawn)` → (outputs, residuals), and `backward_of(wrt)`, that is (values, drawn, heads, outputs, residuals) →
    gradients by name. arrays: its inputs, as they are now. device: where its outputs are, None where JAX decides.
    wide: whether it was called in JAX's 64-bit mode.
    """

    __slots__ = ("__weakref__", "_after", "_cells", "depth", "device", "sources", "wide")

    def __init__(self, expression: Any, arrays: Sequence[NDArray], entries: Sequence[Entry | None], device: Place):
        super().__init__(expression, (), entries, expression.drawn and expression.drawn[0], ())
        self.device, self.wide = device, is_wide()
        self._cells: list[weakref.ref[WaitingCell]] = []
        self._after: list[weakref.ref[WaitingCall]] = []
        self.depth = 1
        sources: list[Any] = [array.cell if type(array.cell) is WaitingCell else array.value for array in arrays]
        with running:
            for i, cell in enumerate(sources):
                if type(cell) is WaitingCell:
                    sources[i] = source = cell.source
                    if type(source) is tuple and source[0].depth >= _DEEPEST:
                        sources[i] = cell.value
                    elif type(source) is tuple:
                        self.depth = max(self.depth, source[0].depth + 1)
                        source[0]._after.append(weakref.ref(self))
            self.sources: Sequence[Source] = sources

    @property
    def waits(self) -> bool:
        """Return whether it is not computed yet."""
        return not self.outputs

    def arrays(self, kinds: Sequence[Any], context: Context) -> list[NDArray]:
        """Return the outputs as arrays on the tape. kinds: what has their shapes and dtypes."""
        cells = [WaitingCell(self, i, kind, self.device) for i, kind in enumerate(kinds)]
        self._cells = [*map(weakref.ref, cells)]
        with running:
            _waiting.add(self)
        return [NDArray(cell, context, (self, i)) for i, cell in enumerate(cells)]

    def run(self) -> None:
        """Compute the outputs, unless that was done."""
        with running:
            if self.waits and not self.forgotten:
                values = [value_of(source) for source in self.sources]
                with nullcontext() if is_wide() == self.wide else jax.enable_x64(self.wide):
                    outputs, self.expression.residuals = self.expression.function.forward(values, self.expression.drawn)
                self.values = values
                self.take(outputs)

    def forget(self) -> None:
        """Free what differentiating the call needs; it is computed before, for what waits for it."""
        self.run()
        super().forget()

    def take(self, outputs: Sequence[jax.Array]) -> None:
        """Keep outputs that were computed, and give them to the calls that wait for them."""
        self.outputs, self.sources = outputs, ()
        _waiting.discard(self)
        for call in (reference() for reference in self._after):
            if call is not None:
                call.sources = [self._computed(source) for source in call.sources]
        self._after = []
        for cell, output in zip((reference() for reference in self._cells), outputs, strict=True):
            if cell is not None:
                cell.fill(output)
        self._cells = []

    def _computed(self, source: Source) -> Source:
        """Return a source, or the output of this call that it is."""
        return self.outputs[source[1]] if type(source) is tuple and source[0] is self else source


class WaitingCell(ArrayCell):
    """Holds an output of a call that waits: who reads it has the call run."""

    __slots__ = ("__weakref__", "_call", "_held", "_number")

    def __init__(self, call: WaitingCall, number: int, kind: Any, place: Place):
        self._call: WaitingCall | None = call
        self._number = number
        self.name, self.shape, self.dtype, self.place, self.shown = "", kind.shape, kind.dtype, place, True
        self._lock = None

    @property
    def source(self) -> Source:
        """Return what it is computed from; the array, if it is there."""
        call = self._call
        return self._held if call is None else (call, self._number)

    @property
    def value(self) -> jax.Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the array, computed now if it was not yet."""
        call = self._call
        if call is not None:
            call.run()
        return self._held

    @value.setter
    def value(self, value: jax.Array) -> None:
        self._held, self._call = value, None

    def fill(self, output: jax.Array) -> None:
        """Hold the output, unless another value was written meanwhile."""
        if self._call is not None:
            if self.place is not None and output.devices() != {self.place}:
                output = jax.device_put(output, self.place)
            self.value = output


def run_all() -> None:
    """Compute all calls that wait."""
    with running:
        for call in [*_waiting]:
            call.run()


def value_of(source: Source) -> jax.Array:
    """Return the array of a source, computed now if it was not yet."""
    if type(source) is not tuple:
        return source
    call, number = source
    call.run()
    return call.outputs[number]
