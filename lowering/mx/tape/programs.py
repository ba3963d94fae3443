"""Programs of several calls, and what waits for them.

A hybridised block that is called while recording waits until one of its outputs is read, or is computed by one program
with its gradients. These wait, too, until they are read, or until the update of the parameters, which joins that
program. Calls of a short tape that did not wait are differentiated by one program as well.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from lowering.executor.bound_arrays import Place as Device
from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import Staged
from lowering.lanes.in_lanes import BatchFunction, InLanes, may_pay
from lowering.lanes.lanes import added
from lowering.mx.context import Context
from lowering.mx.ndarray.array import NDArray
from lowering.mx.ndarray.cells import LateCell
from lowering.mx.tape import policy
from lowering.mx.tape.backward import Place, Row, Tape, leaf_gradients
from lowering.mx.tape.expressions import Expression, is_wide
from lowering.mx.tape.recording import Call, Entry, Given, Leaf
from lowering.xla.compile_options import Kind, jit
from symjax_nnvm.inspect.roles import learned_variables
from symjax_nnvm.recent import Recent
from symjax_nnvm.symbol.symbol import Symbol

running = threading.RLock()
"""The lock of threads that compute a waiting call, or make another call wait for it."""

_waiting: weakref.WeakSet[WaitingCall] = weakref.WeakSet()

_seen: Recent[Any, _TapeProgram] = Recent(policy.KEPT_TAPES)
_traces: Recent[Any, OpenTraces] = Recent(policy.KEPT_TAPES)


class WaitingCall(Call):
    """A call that is not computed yet: its values and outputs have only shapes and dtypes until `run`.

    function: has `forward(values, drawn)` → (outputs, residuals), which may be traced, and what has the shapes and
    dtypes of its `inputs` and `outputs`. arrays: its inputs, as they are now. device: where its outputs are, None where
    JAX decides. wide: whether it was called in JAX's 64-bit mode. waits: it is not computed yet. gradients: the
    backward pass that computes it, where it was differentiated first.
    """

    __slots__ = ("__weakref__", "_cells", "depth", "device", "gradients", "sources", "waits", "wide")

    def __init__(
        self, function: Any, arrays: Sequence[NDArray], entries: Sequence[Entry | None], drawn: Any, device: Device
    ):
        super().__init__(function, function.inputs, entries, drawn, function.outputs)
        self.device, self.wide, self.waits = device, is_wide(), True
        self.gradients: WaitingGradients | None = None
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
        return call.output(cell.number, cell)

    def output(self, number: int, like: Any) -> LateCell:
        """Return a cell that waits for an output. like: has its shape and dtype."""
        cell = LateCell(like.shape, like.dtype, self.device)
        cell.wait_for(self, number)
        self._cells.append(weakref.ref(cell))
        return cell

    def arrays(self, context: Context) -> list[NDArray]:
        """Return the outputs as arrays on the tape."""
        return self.made([NDArray(self.output(i, like), context) for i, like in enumerate(self.outputs)])

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

    def forget(self) -> None:
        """Free what differentiating the call needs. It is computed before, for what waits for it, unless its backward
        pass does so."""
        with running:
            if self.gradients is None:
                self.run()
            super().forget()

    def take(self, outputs: Sequence[jax.Array]) -> None:
        """Give outputs that were computed to the cells that wait for them, and keep them. Until all cells have theirs
        the call waits: one that was interrupted is computed again."""
        _fill(self, self._cells, outputs)
        self.sources, self.gradients, self.waits, self._cells = [], None, False, []
        _waiting.discard(self)
        self.outputs = () if self.forgotten else outputs  # which an array of another one would hold


class WaitingGradients:
    """The backward pass of calls that all wait: it runs when a gradient or an output is read, or together
    with the update of the parameters, as one program.

    program: has `run(*arguments)` → (gradients by number, outputs of each call), and `with_update(update, numbers,
    donate)`, which is None or (arguments, *arrays of the update) → (what `run` returns, what the update does). cells:
    of the gradients, by number.
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
            fits = self._calls and is_wide() == self._wide
            numbers = tuple(cell.number for cell in cells)
            run = self._program.with_update(update, numbers, donate) if fits else None
            if run is None:
                return None
            computed, results = run(self._arguments, *arrays)
            self._take(*computed)
        return results

    def _take(self, gradients: Mapping[int, jax.Array], outputs: Sequence[Sequence[jax.Array]]) -> None:
        """Give what was computed to the calls and to the arrays of the gradients."""
        for call, computed in zip(self._calls, outputs, strict=True):
            call.take(computed)
        _fill(self, self._cells, gradients)
        self._arguments = self._calls = ()


def _fill(computation: Any, cells: Sequence[weakref.ref[LateCell]], results: Any) -> None:
    """Give the results of a computation, by number, to the cells that wait for them."""
    for cell in (reference() for reference in cells):
        if cell is not None:
            cell.fill(computation, results[cell.number])


def _in_width(wide: bool) -> AbstractContextManager[Any]:
    """Return a block in which JAX has 64 bits, or not."""
    return nullcontext() if is_wide() == wide else jax.enable_x64(wide)


def with_gradients(update: Callable[..., Any], cells: Sequence[Any], donate: bool, arrays: Any) -> Any:
    """Return what an update makes of the gradients of these cells, computed together with them; None where it has to be
    computed alone. update, donate, arrays: as of `WaitingGradients.run_with`."""
    waiting = {cell.computed_by if type(cell) is LateCell else None for cell in cells}
    first = waiting.pop() if len(waiting) == 1 else None
    return first.run_with(update, cells, donate, arrays) if type(first) is WaitingGradients else None


def run_all() -> None:
    """Compute all calls that wait."""
    with running:
        for call in [*_waiting]:
            call.run()


def short_tape_gradients(
    tape: Tape, ograds: Sequence[jax.Array | None], retain: bool = False, may_wait: bool = False
) -> Mapping[Leaf, jax.Array | None] | None:
    """Return the gradient of each leaf of a tape; None where they are to be computed call by call.

    The outputs of calls that wait are computed, too. ograds: the gradients of the heads, None for ones. retain: the
    calls are differentiated again. may_wait: gradients may be None, and the array of each leaf waits for its own.
    """
    waiting = [call for call in tape.calls if isinstance(call, WaitingCall)]
    if not waiting:
        return _gradients_in_one(tape, (), ograds, False) if _is_short(tape.calls) else None
    if retain or len(waiting) < len(tape.calls) or len(waiting) > policy.MOST_WAITING:
        return None
    with running:  # nothing else computes one of the calls meanwhile
        return _gradients_in_one(tape, waiting, ograds, may_wait)


def _gradients_in_one(
    tape: Tape, waiting: Sequence[WaitingCall], ograds: Sequence[jax.Array | None], may_wait: bool
) -> Mapping[Leaf, jax.Array | None] | None:
    """Return what `short_tape_gradients` does by one program of all calls. waiting: those of them that wait."""
    heads = [head for head in tape.heads if head is not None and head[0] >= 0]
    if len(heads) < len(tape.heads):
        return None
    links, given = zip(*(_given_by(call, tape.numbers) for call in tape.calls), strict=True)
    ways = {(call.waits, call.device, call.wide) for call in waiting}
    if waiting and ways != {(True, waiting[0].device, is_wide())}:  # what one waits for may have computed another
        return None
    kinds = [  # the function of a call that waits is of one kind
        None if call.outputs is None else tuple([(value.shape, value.dtype) for value in call.values]) for call in given
    ]
    absent = [*(gradient is None for gradient in ograds), *(call.drawn is None for call in given)]
    wiring = (tuple(heads), tuple(absent), tuple(tape.rows), links)
    key = (wiring, tuple(kinds), *(id(call.function) for call in tape.calls))
    program = _seen.get(key)
    if program is None:
        cells = [*(leaf.cell for leaf in tape.leaves), *(kind for call in waiting for kind in call.function.outputs)]
        is_floating = all(jnp.issubdtype(cell.dtype, jnp.inexact) for cell in cells)
        functions = [call.function for call in tape.calls]
        family = (wiring, *(function.family for function in functions))
        traces = _traces.get(family)
        if traces is None:
            traces = _traces[family] = OpenTraces([out for function in functions for out in function.symbol.outputs])
        program = _seen[key] = _TapeProgram(functions, links, tape.rows, heads, is_floating, traces)
        for function in {call.function for call in waiting}:
            function.tapes += 1
    program.calls += 1
    if program.calls <= policy.PATIENCE_WITH_TAPES and all(call.function.tapes > policy.MOST_TAPES for call in waiting):
        return None
    may_wait = may_wait and program.is_floating and bool(tape.leaves)
    if may_wait and all(leaf.grad_req == "write" and type(leaf.cell) is LateCell for leaf in tape.leaves):
        WaitingGradients(program, (given, ograds), waiting, [leaf.cell for leaf in tape.leaves])
        return dict.fromkeys(tape.leaves)
    gradients, outputs = program.run(given, ograds)
    for call, computed in zip(waiting, outputs, strict=False):
        call.take(computed)
    return {tape.leaves[number]: gradient for number, gradient in gradients.items()}


def _is_short(calls: Sequence[Call]) -> bool:
    """Return whether calls that ran are those of a short tape that one program may differentiate."""
    if len(calls) > policy.LONGEST or jax.default_backend() != "cpu" or jax.device_count() > 1:
        return False
    return all(
        type(call.function) is Expression and not call.function.calls_python and not call.states for call in calls
    )


def _given_by(call: Call, numbers: Mapping[Call, int]) -> tuple[tuple[Place | None, ...], Given]:
    """Return which inputs of a call are outputs of calls that wait, and what it gives. numbers: of the calls."""
    if not isinstance(call, WaitingCall):
        return (), Given(call.values, call.drawn, call.outputs)
    links, values = [], []
    for source in call.sources:
        is_cell = type(source) is LateCell
        computation: Any = source.computed_by if is_cell else None
        links.append((numbers[computation], source.number) if computation in numbers else None)
        values.append(None if links[-1] else source.value if is_cell else source)
    return tuple(links), Given(values, call.drawn, None)


def ways_of(symbol: Symbol) -> list[str]:
    """Return lines of text: how the programs of tapes that call a network run each batch's shapes."""
    programs = [program for _, program in _seen.items() if any(f.symbol is symbol for f in program.functions)]
    return [line for program in programs for line in program.ways()]


@dataclass(eq=False)
class _TapeProgram:
    """Runs the backward pass of a tape, and the forward pass of the calls that wait.

    functions: what computes the calls. links: those inputs of each that are outputs of calls that wait. rows, heads: of
    the tape. is_floating: all that is between the heads and the leaves are floating-point numbers, so that every leaf
    gets a gradient. traces: shared with tapes of the same calls with other shapes. calls: how often the program was
    requested.
    """

    functions: Sequence[Any]
    links: Sequence[Sequence[Place | None]]
    rows: Sequence[Row]
    heads: Sequence[Place]
    is_floating: bool
    traces: OpenTraces
    calls: int = 0

    def __post_init__(self) -> None:
        self._with_updates: dict[Any, Callable[..., Any]] = {}
        self._asked: Recent[Any, int] = Recent(policy.KEPT_TAPES)
        of_blocks = [function.functions for function in self.functions if function.functions is not None]
        self._accounts = [block.account for block in of_blocks if block.account is not None]
        """Of the functions whose first calls these are."""
        names = dict.fromkeys(f.symbol.name or "a group" for f in self.functions if f.functions is not None)
        self._name = f"the training pass of {', '.join(names)}" if names else "a recorded computation"
        self._kind: Kind = "quick" if any(block.quick for block in of_blocks) else "full"
        compiles = lambda kept: jit(self._run, kind=self._kind, kept=kept, name=self._name)  # noqa: E731
        staged = Staged(self._run, compiles, self._accounts or None, open_traces=self.traces)
        self._learned = [{node.name for node in learned_variables(function.symbol)} for function in self.functions]
        self._may_pay = may_pay([function.symbol for function in self.functions])
        whole = jit(self._run, kind=self._kind, name=self._name)
        in_lanes = InLanes(BatchFunction(self._run, whole, self._samples), may_pay=self._may_pay)
        at_once = in_lanes if self._kind == "full" else whole
        self.run: Callable[..., Any] = at_once if of_blocks and not self._accounts else staged

    def ways(self) -> list[str]:
        """Return lines of text: how it runs the calls of each batch's shapes, alone and with updates."""
        runs = [self.run, *self._with_updates.values()]
        return [line for run in runs if isinstance(run, InLanes) for line in run.ways()]

    def with_update(
        self, update: Callable[..., Any], numbers: tuple[int, ...], donate: bool
    ) -> Callable[..., Any] | None:
        """Return (arguments of `run`, *arrays of the update) → (what `run` returns, what the update does); None where
        it is not worth compiling the whole tape for this update, or not yet.

        update: (gradients with these numbers, arrays to keep, arrays that are given away if donate is true) → arrays.
        """
        if self._accounts:
            return None
        key = update, numbers, donate
        if key in self._with_updates:
            return self._with_updates[key]
        times = self._asked[key] = (self._asked.get(key) or 0) + 1
        if len(self._with_updates) == policy.UPDATES or (self._with_updates and times <= policy.UPDATED_OFTEN):
            return None

        def computed(run_arguments: Any, kept_arrays: Any, given_away: Any) -> Any:
            return self._run(*run_arguments)

        def updated(results: Any, run_arguments: Any, kept_arrays: Any, given_away: Any) -> Any:
            gradients, outputs = added(results)
            new_values = update([gradients[number] for number in numbers], kept_arrays, given_away)
            return (gradients, outputs), new_values

        run = lambda *arguments: updated(computed(*arguments), *arguments)  # noqa: E731
        name = f"{self._name} with its update"
        whole = jit(run, kind=self._kind, donate_argnums=2 if donate else (), name=name)
        finish = jit(updated, kind="few", donate_argnums=3 if donate else ())
        samples = lambda run_arguments, *_: self._samples(*run_arguments)  # noqa: E731
        in_lanes = InLanes(BatchFunction(computed, whole, samples, finish), may_pay=self._may_pay)
        return self._with_updates.setdefault(key, in_lanes if self._kind == "full" else whole)

    def _samples(self, given: Sequence[Given], head_grads: Sequence[jax.Array | None]) -> dict[str, jax.Array]:
        """Return what calls are given that is not learned, and the gradients of the heads."""
        samples = {f"head gradient {i}": gradient for i, gradient in enumerate(head_grads) if gradient is not None}
        for i, (function, call, learned) in enumerate(zip(self.functions, given, self._learned, strict=True)):
            pairs = zip(function.names, call.values, strict=True)
            samples |= {f"{n} of call {i}": value for n, value in pairs if value is not None and n not in learned}
        return samples

    def _run(
        self, given: Sequence[Given], head_grads: Sequence[jax.Array | None]
    ) -> tuple[dict[int, jax.Array], list[Sequence[jax.Array] | None]]:
        """Return (the gradients by the numbers of leaves, the outputs of the calls that wait)."""
        calls: list[Given] = []
        for function, links, call in zip(self.functions, self.links, given, strict=True):
            if call.outputs is None:
                linked = zip(call.values, links, strict=True)
                values = [value if at is None else calls[at[0]].outputs[at[1]] for value, at in linked]
                calls.append(Given(values, call.drawn, *function.forward(values, call.drawn)))
            else:
                calls.append(call)

        def differentiate(number: int, heads: list[jax.Array], wrt: tuple[int, ...]) -> Sequence[jax.Array]:
            function = self.functions[number]
            names = tuple(function.names[position] for position in wrt)
            gradients = function.traced_gradients(names, calls[number], heads)
            return [gradients[name] for name in names]

        def zeros(number: int, output: int, _: jax.Array) -> jax.Array:
            return jnp.zeros_like(calls[number].outputs[output])

        heads = [
            ((number, output), jnp.ones_like(calls[number].outputs[output]) if gradient is None else gradient)
            for (number, output), gradient in zip(self.heads, head_grads, strict=True)
        ]
        gradients = leaf_gradients(self.rows, heads, differentiate, operator.add, zeros)
        return gradients, [None if old.outputs else new.outputs for old, new in zip(given, calls, strict=True)]
