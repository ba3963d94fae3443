"""Lazy calls: a compiled program that is called while recording runs when one of its outputs is read, or, if it is
differentiated first, as one program with its gradients. Gradients wait, too, until they are read, or until the update
of the parameters, which then joins the same program."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax

from lowering.executor.bound_arrays import Place
from lowering.mx.context import Context
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.cells import LateCell
from lowering.mx.tape import policy
from lowering.mx.tape.expressions import is_wide
from lowering.mx.tape.recording import Call, Entry

running = threading.RLock()
"""The lock of threads that compute a waiting call, or make another call wait for it."""

_waiting: weakref.WeakSet[WaitingCall] = weakref.WeakSet()


class WaitingCall(Call):
    """A call that is not computed yet: its values and outputs are empty until `run`.

    function: has `forward(values, drawn)` → (outputs, residuals), which may be traced, the `dtypes` of its inputs, and
    `kinds`, what has the outputs' shapes and dtypes. arrays: its inputs, as they are now. device: where its outputs
    are, None where JAX decides. wide: whether it was called in JAX's 64-bit mode. gradients: the backward pass that
    computes it, where it was differentiated first.
    """

    __slots__ = (
        "__weakref__",
        "_cells",
        "_dtypes",
        "depth",
        "device",
        "gradients",
        "kinds",
        "sources",
        "wide",
    )

    def __init__(
        self, function: Any, arrays: Sequence[NDArray], entries: Sequence[Entry | None], drawn: Any, device: Place
    ):
        super().__init__(function, (), entries, drawn, ())
        self.device, self.wide = device, is_wide()
        self._dtypes: Sequence[Any] = function.dtypes
        self.gradients: WaitingGradients | None = None
        self.kinds: Sequence[Any] = function.kinds
        self._cells: list[weakref.ref[LateCell]] = []
        self.depth = 1
        with running:
            self.sources: Sequence[Any] = [
                self._source(cell) if type(cell := array.cell) is LateCell else array.value for array in arrays
            ]
            _waiting.add(self)

    def _source(self, cell: LateCell) -> jax.Array | LateCell:
        """Return what an input is computed from: its value, or a cell that waits for the call that computes it."""
        call = cell.computed_by
        if type(call) is not WaitingCall or call.depth >= policy.MOST_WAITING:
            return cell.value
        self.depth = max(self.depth, call.depth + 1)
        return call.output(cell.number)

    @property
    def waits(self) -> bool:
        """Return whether it is not computed yet."""
        return not self.outputs

    @property
    def num_outputs(self) -> int:
        """How many outputs it has."""
        return len(self.kinds)

    def dtype(self, number: int) -> Any:
        """The dtype of an input, which may not be computed yet."""
        return self._dtypes[number]

    def output(self, number: int) -> LateCell:
        """Return a cell that waits for an output."""
        cell = LateCell(self.kinds[number].shape, self.kinds[number].dtype, self.device)
        cell.wait_for(self, number)
        self._cells.append(weakref.ref(cell))
        return cell

    def arrays(self, context: Context) -> list[NDArray]:
        """Return the outputs as arrays on the tape."""
        return [NDArray(self.output(i), context, (self, i)) for i in range(len(self.kinds))]

    def run(self) -> None:
        """Compute the outputs, unless that was done."""
        with running:
            if self.gradients is not None:
                self.gradients.run()
            elif self.waits and not self.forgotten:
                values = [source.value if type(source) is LateCell else source for source in self.sources]
                with _in_width(self.wide):
                    outputs, self.residuals = self.function.forward(values, self.drawn)
                self.values = values
                self.take(outputs)

    def run_others(self, calls: Collection[Call]) -> None:
        """Compute what it waits for, but these calls."""
        self.sources = [
            source.value if type(source) is LateCell and source.computed_by not in calls else source
            for source in self.sources
        ]

    def forget(self) -> None:
        """Free what differentiating the call needs. It is computed before, for what waits for it, unless its backward
        pass does so."""
        with running:
            if self.gradients is None:
                self.run()
            super().forget()

    def take(self, outputs: Sequence[jax.Array]) -> None:
        """Keep outputs that were computed, and give them to the cells that wait for them."""
        self.sources, self.gradients = [], None
        _waiting.discard(self)
        self.outputs = () if self.forgotten else outputs  # which an array of another one would hold
        cells, self._cells = self._cells, []
        for cell in (reference() for reference in cells):
            if cell is not None:
                cell.fill(self, outputs[cell.number])


class WaitingGradients:
    """The backward pass of calls that all wait: it runs when a gradient or an output is read, or together
    with the update of the parameters, as one program.

    program: has `run(*arguments)` → (gradients by number, outputs of each call), and `with_update(arguments, update,
    numbers, donate)`, which is None or (arguments, arrays of the update) → (what `run` returns, what the update does).
    cells: of the gradients, by number.
    """

    __slots__ = ("_arguments", "_calls", "_cells", "_program", "_wide")

    def __init__(self, program: Any, arguments: Sequence[Any], calls: Sequence[WaitingCall], cells: Sequence[LateCell]):
        self._program, self._arguments, self._calls, self._wide = program, arguments, calls, is_wide()
        self._cells: list[weakref.ref[LateCell]] = [*map(weakref.ref, cells)]
        for number, cell in enumerate(cells):
            cell.wait_for(self, number)
        for call in calls:
            call.gradients = self

    def run(self) -> None:
        """Compute the gradients and the outputs of the calls, unless that was done."""
        with running:
            if self._calls:
                with _in_width(self._wide):
                    self._take(*self._program.run(*self._arguments))

    def run_with(self, update: Callable[..., Any], cells: Sequence[Any], donate: bool, arrays: Any) -> Any:
        """Return what an update makes of the gradients of these cells, computed together with them. None where it has
        to be computed alone. update, donate, arrays: as `with_update` of the program takes them."""
        with running:
            if not self._calls or is_wide() != self._wide:
                return None
            run = self._program.with_update(self._arguments, update, tuple(cell.number for cell in cells), donate)
            if run is None:
                return None
            computed, results = run(self._arguments, arrays)
            self._take(*computed)
        return results

    def _take(self, gradients: Mapping[int, jax.Array], outputs: Sequence[Sequence[jax.Array]]) -> None:
        """Give what was computed to the calls and to the arrays of the gradients."""
        for call, computed in zip(self._calls, outputs, strict=True):
            call.take(computed)
        for number, gradient in gradients.items():
            cell = self._cells[number]()
            if cell is not None:
                cell.fill(self, gradient)
        self._arguments = self._calls = ()


def _in_width(wide: bool) -> AbstractContextManager[Any]:
    """Return a block in which JAX has 64 bits, or not."""
    return nullcontext() if is_wide() == wide else jax.enable_x64(wide)


def gradients_of(cells: Sequence[Any]) -> WaitingGradients | None:
    """Return the backward pass that all these cells wait for; None where there is none."""
    first = cells[0].computed_by if cells and type(cells[0]) is LateCell else None
    if type(first) is not WaitingGradients:
        return None
    return first if all(type(cell) is LateCell and cell.computed_by is first for cell in cells) else None


def run_all() -> None:
    """Compute all calls that wait."""
    with running:
        for call in [*_waiting]:
            call.run()
