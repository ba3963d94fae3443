"""Backward passes of short tapes, as one program each: a loop that trains a network records the same calls in every
step, and one program of all costs less than one for each of them. Calls that wait are computed by it, too, and their
gradients wait for the update of the parameters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lowering.host.open_sizes import OpenTraces
from lowering.host.staged import Staged
from lowering.lanes.in_lanes import InLanes, may_pay
from lowering.lanes.lanes import added
from lowering.mx.ndarray.cells import LateCell
from lowering.mx.tape import policy
from lowering.mx.tape.backward import Place, Row, Tape, leaf_gradients
from lowering.mx.tape.expressions import Expression, is_wide
from lowering.mx.tape.recording import Call, Leaf
from lowering.mx.tape.waiting import WaitingCall, WaitingGradients, running
from lowering.xla.compile_options import jit
from symjax_nnvm.inspect.roles import learned_variables
from symjax_nnvm.recent import Recent

_seen: Recent[Any, _TapeProgram] = Recent(policy.KEPT_TAPES)
_traces: Recent[Any, OpenTraces] = Recent(policy.KEPT_TAPES)


class _Given(NamedTuple):
    """What a call gives to the program of its tape.

    values: None for those that the program computes. drawn: what random numbers are made from. outputs: None of a call
    that waits.
    """

    values: Sequence[jax.Array | None]
    drawn: Any
    outputs: Sequence[jax.Array] | None


def short_tape_gradients(
    tape: Tape, ograds: Sequence[jax.Array | None], may_wait: bool = False
) -> Mapping[Leaf, jax.Array | None] | None:
    """Return the gradient of each leaf of a tape; None where they are to be computed call by call.

    The outputs of calls that wait are computed, too. ograds: the gradients of the heads, None for ones. may_wait:
    gradients may be None, and the array of each leaf waits for its own.
    """
    waiting = [call for call in tape.calls if isinstance(call, WaitingCall)]
    if not waiting:
        return _gradients_in_one(tape, (), ograds, False) if _is_short(tape.calls) else None
    if len(waiting) < len(tape.calls) or len(waiting) > policy.MOST_WAITING:
        return None
    with running:  # nothing else computes one of the calls meanwhile
        for call in waiting:
            call.run_others(tape.numbers)  # which may need some of these calls, which wait no more then
        together = {(call.waits, call.device, call.wide) for call in waiting}
        if len(together) > 1 or not waiting[0].waits or waiting[0].wide != is_wide():
            return None
        return _gradients_in_one(tape, waiting, ograds, may_wait)


def _gradients_in_one(
    tape: Tape, waiting: Sequence[WaitingCall], ograds: Sequence[jax.Array | None], may_wait: bool
) -> Mapping[Leaf, jax.Array | None] | None:
    """Return what `short_tape_gradients` does by one program of all calls. waiting: those of them that wait."""
    leaves = tape.leaves
    heads = [head for head in tape.heads if head is not None and head[0] >= 0]
    if len(heads) < len(tape.heads):
        return None
    key: list[Any] = [*heads, *(head is None for head in ograds)]
    family = [*key]
    links, arrays = [], []
    for call, row in zip(tape.calls, tape.rows, strict=True):
        linked, facts = _given_by(call, tape.numbers)
        waits = isinstance(call, WaitingCall)  # its function is of one kind
        kinds = () if waits else tuple([(value.shape, value.dtype) for value in call.values])
        key += row, id(call.function), linked, kinds, facts.drawn is None
        family += row, getattr(call.function, "family", call.function), linked, facts.drawn is None
        links.append(linked)
        arrays.append(facts)
    program = _seen.get(tuple(key))
    if program is None:
        kinds = [*(leaf.cell for leaf in leaves), *(kind for call in waiting for kind in call.kinds)]
        is_floating = all(jnp.issubdtype(kind.dtype, jnp.inexact) for kind in kinds)
        functions = [call.function for call in tape.calls]
        traces = _traces.get(tuple(family))
        if traces is None:
            traces = OpenTraces([entry for function in functions for entry in function.symbol.outputs])
            _traces[tuple(family)] = traces
        program = _seen[tuple(key)] = _TapeProgram(functions, links, tape.rows, heads, is_floating, traces)
        for function in {call.function for call in waiting}:
            function.tapes += 1
    program.calls += 1
    if program.calls <= policy.PATIENCE_WITH_TAPES and all(call.function.tapes > policy.MOST_TAPES for call in waiting):
        return None
    if may_wait and program.is_floating and _may_wait(leaves):
        WaitingGradients(program, (arrays, ograds), waiting, [leaf.cell for leaf in leaves])
        return dict.fromkeys(leaves)
    gradients, outputs = program.run(arrays, ograds)
    for call, computed in zip(waiting, outputs, strict=False):
        call.take(computed)
    return {leaves[number]: gradient for number, gradient in gradients.items()}


def _may_wait(leaves: Sequence[Leaf]) -> bool:
    """Return whether the array of each leaf can wait for its gradient."""
    return bool(leaves) and all(leaf.grad_req == "write" and type(leaf.cell) is LateCell for leaf in leaves)


def _is_short(calls: Sequence[Call]) -> bool:
    """Return whether calls that ran are those of a short tape that one program may differentiate."""
    if len(calls) > policy.LONGEST or jax.default_backend() != "cpu" or jax.device_count() > 1:
        return False
    return all(
        type(call.function) is Expression and not call.function.calls_python and not call.states for call in calls
    )


def _given_by(call: Call, numbers: Mapping[Call, int]) -> tuple[tuple[Place | None, ...], _Given]:
    """Return which inputs of a call are outputs of calls that wait, and what it gives. numbers: of the calls."""
    if not isinstance(call, WaitingCall):
        return (), _Given(call.values, call.drawn, call.outputs)
    cells: list[Any] = [source if type(source) is LateCell else None for source in call.sources]
    links = tuple([None if cell is None else (numbers[cell.computed_by], cell.number) for cell in cells])
    values = [source if link is None else None for source, link in zip(call.sources, links, strict=True)]
    return links, _Given(values, call.drawn, None)


class _TapeProgram:
    """Runs the backward pass of a tape, and the forward pass of the calls that wait.

    is_floating: all that is between the heads and the leaves are floating-point numbers, so that every leaf gets a
    gradient. calls: how often the program was requested.
    """

    def __init__(
        self,
        functions: Sequence[Any],
        links: Sequence[Sequence[Place | None]],
        rows: Sequence[Row],
        heads: Sequence[Place],
        is_floating: bool,
        traces: OpenTraces,
    ):
        """functions: what computes the calls. links: those inputs of each that are outputs of calls that wait. traces:
        shared with tapes of the same calls with other shapes."""
        self.is_floating, self.calls = is_floating, 0
        self._functions, self._links, self._rows, self._heads = functions, links, rows, heads
        of_blocks = [getattr(function, "functions", None) for function in functions]
        self._accounts = [block.account for block in of_blocks if block is not None and block.account is not None]
        """Of the functions whose first calls these are."""
        quick = bool(self._accounts)
        self._learned = [{node.name for node in learned_variables(function.symbol)} for function in functions]
        self._may_pay = may_pay([function.symbol for function in functions])
        compiled = any(of_blocks) and not quick
        compiles = lambda kept: jit(self._run, quick=quick, kept=kept)  # noqa: E731
        self.run = (
            InLanes(self._run, jit(self._run), self._samples, may_pay=self._may_pay)
            if compiled
            else Staged(self._run, compiles, self._accounts or None, open_traces=traces)
        )
        self._with_updates: dict[Any, Callable[..., Any]] = {}
        self._asked: Recent[Any, int] = Recent(policy.KEPT_TAPES)

    def with_update(
        self, arguments: Sequence[Any], update: Callable[..., Any], numbers: tuple[int, ...], donate: bool
    ) -> Callable[..., Any] | None:
        """Return (arguments of `run`, arrays of the update) → (what `run` returns, what the update does); None where it
        is not worth compiling the whole tape for this update, or not yet.

        update: (gradients with these numbers, arrays to keep, arrays that are given away if donate is true) → arrays.
        """
        if self._accounts:
            return None
        key = update, numbers, donate
        jitted = self._with_updates.get(key)
        if jitted is not None:
            return jitted
        times = self._asked[key] = (self._asked.get(key) or 0) + 1
        if len(self._with_updates) == policy.UPDATES or (self._with_updates and times <= policy.UPDATED_OFTEN):
            return None

        def computed(run_arguments: Any, kept_arrays: Any, given_away: Any) -> Any:
            return self._run(*run_arguments)

        def updated(results: Any, run_arguments: Any, kept_arrays: Any, given_away: Any) -> Any:
            gradients, outputs = added(results)
            new_values = update([gradients[number] for number in numbers], kept_arrays, given_away)
            return (gradients, outputs), new_values

        def run(*arguments: Any) -> Any:
            return updated(computed(*arguments), *arguments)

        whole, finish = (jit(run, donate_argnums=2 if donate else ()), jit(updated, donate_argnums=3 if donate else ()))
        samples = lambda run_arguments, *_: self._samples(*run_arguments)  # noqa: E731
        program = InLanes(computed, whole, samples, may_pay=self._may_pay, finish=finish)
        self._with_updates[key] = jitted = lambda run_arguments, arrays: program(run_arguments, *arrays)
        return jitted

    def _samples(self, all_facts: Sequence[_Given], head_grads: Sequence[jax.Array | None]) -> dict[str, jax.Array]:
        """Return what calls are given that is not learned, and the gradients of the heads."""
        calls = enumerate(zip(self._functions, all_facts, self._learned, strict=True))
        pairs = [
            (f"{name} of call {i}", value)
            for i, (function, facts, learned) in calls
            for name, value in zip(function.names, facts.values, strict=True)
            if name not in learned
        ]
        pairs += [(f"head gradient {i}", gradient) for i, gradient in enumerate(head_grads)]
        return {name: value for name, value in pairs if value is not None}

    def _run(
        self, all_facts: Sequence[_Given], head_grads: Sequence[jax.Array | None]
    ) -> tuple[dict[int, jax.Array], list[Sequence[jax.Array] | None]]:
        """Return (the gradients by the numbers of leaves, the outputs of the calls that wait)."""
        calls: list[Any] = []
        for function, links, facts in zip(self._functions, self._links, all_facts, strict=True):
            values, outputs, residuals = facts.values, facts.outputs, None
            if outputs is None:
                linked = zip(values, links, strict=True)
                values = [value if at is None else calls[at[0]][1][at[1]] for value, at in linked]
                outputs, residuals = function.forward(values, facts.drawn)
            calls.append((values, outputs, residuals))

        def differentiate(number: int, partial: list[jax.Array | None], wrt: tuple[int, ...]) -> Sequence[jax.Array]:
            (values, outputs, residuals), function = calls[number], self._functions[number]
            heads = [jnp.zeros_like(o) if g is None else g for o, g in zip(outputs, partial, strict=True)]
            names = tuple(function.names[position] for position in wrt)
            gradients = function.backward_of(names)(values, all_facts[number].drawn, heads, outputs, residuals)
            return [gradients[name] for name in names]

        starts = [
            jnp.ones_like(calls[call][1][output]) if gradient is None else gradient
            for (call, output), gradient in zip(self._heads, head_grads, strict=True)
        ]
        heads = [*zip(self._heads, starts, strict=True)]
        gradients = leaf_gradients(self._rows, heads, differentiate, operator.add)
        return gradients, [
            None if facts.outputs else outputs for facts, (_, outputs, _) in zip(all_facts, calls, strict=True)
        ]
