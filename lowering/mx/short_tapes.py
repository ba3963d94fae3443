"""Backward passes of short tapes, as one program each: a loop that trains a network records the same calls in every
step, and one program of all costs less than one for each of them. Calls that wait are computed by it, too, and their
gradients wait for the update of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lowering.host.staged import Staged
from lowering.mx.eager import Expression, is_wide
from lowering.mx.ndarray.cells import LateCell
from lowering.mx.recording import Call, Leaf
from lowering.mx.waiting import WaitingCall, WaitingGradients, running, value_of
from lowering.xla.options import jit
from symjax_nnvm.recent import Recent

_LONGEST = 32
"""Calls of a tape that is short: the calls of longer ones are worth their time, and one program of all is not."""

_MOST_WAITING = 8
"""Calls that wait, of a tape that is computed together with its gradients."""

_PATIENCE = 2
"""So many times a tape is differentiated call by call before its program is compiled: one whose calls ran, or whose
functions are all called by many tapes, as those of a tree's nodes are."""

_UPDATES = 8
"""So many updates of parameters at most are compiled together with the gradients of a tape."""

_UPDATED_OFTEN = 16
"""So many times any but the first update of a tape's gradients is a program of its own."""

_MOST_TAPES = 4
"""Different tapes that call a function and are compiled at once."""

_seen: Recent[Any, _TapeProgram] = Recent(256)

Place = tuple[int, int]
"""An array on a tape: (number of its call, of the output), or (-1, number of a leaf)."""


class _Given(NamedTuple):
    """What a call gives to the program of its tape.

    values: None for those that the program computes. drawn: what random numbers are made from. outputs: None of a call
    that waits.
    """

    values: list[jax.Array | None]
    drawn: Any
    outputs: Sequence[jax.Array] | None


class _Row(NamedTuple):
    """What the program of a tape knows of a call.

    function: what computes it. entries: where its inputs came from on the tape. links: those inputs that are outputs of
    calls that wait. kinds: shapes and dtypes of the inputs of a call that does not wait.
    """

    function: Any
    entries: tuple[Place | None, ...]
    links: tuple[Place | None, ...]
    kinds: tuple[Any, ...]


def short_tape_gradients(
    calls: Sequence[Call],
    heads: Sequence[Any],
    given: Sequence[jax.Array | None],
    request: Callable[[Leaf], str],
    may_wait: bool = False,
) -> Mapping[Leaf, jax.Array | None] | None:
    """Return the gradient of each leaf that is not requested as "null"; None where it is to be computed call by call.

    calls: the last first; the outputs of those that wait are computed, too. heads: entries on the tape. given: their
    gradients, None for ones. may_wait: gradients may be None, and the array of each leaf waits for its own.
    """
    if not any(isinstance(call, WaitingCall) for call in calls):
        return _gradients_in_one(calls, (), heads, given, request, False) if _ran(calls) else None
    if len(calls) > _MOST_WAITING:
        return None
    with running:  # nothing else computes one of the calls meanwhile
        _run_others(calls)
        waiting = [call for call in calls if isinstance(call, WaitingCall) and call.waits]
        if not _wait_together(waiting, calls):
            return None
        return _gradients_in_one(calls, waiting, heads, given, request, may_wait)


def _run_others(calls: Sequence[Call]) -> None:
    """Compute what calls wait for that are not on the tape: it may need some of these, which wait no more then."""
    for call in calls:
        for source in call.sources if isinstance(call, WaitingCall) else ():
            if type(source) is tuple and source[0] not in calls:
                source[0].run()


def _gradients_in_one(
    calls: Sequence[Call],
    waiting: Sequence[WaitingCall],
    heads: Sequence[Any],
    given: Sequence[jax.Array | None],
    request: Callable[[Leaf], str],
    may_wait: bool,
) -> Mapping[Leaf, jax.Array | None] | None:
    """Return what `short_tape_gradients` does by one program of all calls. waiting: those of them that wait."""
    numbers: dict[Any, int] = {call: i for i, call in enumerate(calls)}
    leaves: list[Leaf] = []

    def place(entry: Any) -> Place | None:
        if not isinstance(entry, Leaf):
            return None if entry is None else (numbers[entry[0]], entry[1])
        if entry not in numbers:
            numbers[entry] = len(leaves) if request(entry) != "null" else -1
            if numbers[entry] >= 0:
                leaves.append(entry)
        return None if numbers[entry] < 0 else (-1, numbers[entry])

    rows, arrays = [], []
    for call in calls:
        links, known = _inputs_of(call, numbers)
        waits = isinstance(call, WaitingCall)  # its function is of one kind
        kinds = () if waits else tuple((value.shape, value.dtype) for value in call.values)
        rows.append(_Row(_function_of(call), tuple(map(place, call.entries)), links, kinds))
        arrays.append(known)
    places = [place(head) for head in heads]
    if any(each is None or each[0] < 0 for each in places):
        return None
    drawn = (known.drawn is None for known in arrays)
    key = (*((id(row.function), *row[1:]) for row in rows), *places, *drawn, *(head is None for head in given))
    program = _seen.get(key)
    if program is None:
        kinds = [*(leaf.cell for leaf in leaves), *(kind for call in waiting for kind in call.kinds)]
        program = _seen[key] = _TapeProgram(
            rows, places, all(jnp.issubdtype(kind.dtype, jnp.inexact) for kind in kinds)
        )
        for function in {call.expression.function for call in waiting}:
            function.tapes += 1
    program.calls += 1
    if program.calls <= _PATIENCE and all(call.expression.function.tapes > _MOST_TAPES for call in waiting):
        return None
    if may_wait and program.is_floating and _may_wait(leaves):
        WaitingGradients(program, (arrays, given), waiting, [leaf.cell for leaf in leaves])
        return dict.fromkeys(leaves)
    gradients, outputs = program.run(arrays, given)
    for call, computed in zip(waiting, outputs, strict=False):
        call.take(computed)
    return {leaves[number]: gradient for number, gradient in gradients.items()}


def _may_wait(leaves: Sequence[Leaf]) -> bool:
    """Return whether the array of each leaf can wait for its gradient."""
    return bool(leaves) and all(leaf.grad_req == "write" and type(leaf.cell) is LateCell for leaf in leaves)


def _ran(calls: Sequence[Call]) -> bool:
    """Return whether calls are those of a short tape that one program may differentiate."""
    if len(calls) > _LONGEST or jax.default_backend() != "cpu" or jax.device_count() > 1:
        return False
    return all(
        type(call.expression) is Expression and not call.expression.calls_python and not call.states for call in calls
    )


def _wait_together(waiting: Sequence[WaitingCall], calls: Sequence[Call]) -> bool:
    """Return whether calls all wait, on the same device, for numbers of the width of this thread's."""
    places = {(call.device, call.wide) for call in waiting}
    return len(waiting) == len(calls) and len(places) == 1 and waiting[0].wide == is_wide()


def _function_of(call: Call) -> Any:
    """Return what computes a call's gradients: the same object for the same calls of every step."""
    return call.expression.function if isinstance(call, WaitingCall) else call.expression


def _inputs_of(call: Call, numbers: Mapping[Any, int]) -> tuple[tuple[Place | None, ...], _Given]:
    """Return what links a call to those on the tape that wait, and what it gives. numbers: of the calls."""
    if not isinstance(call, WaitingCall):
        return (None,) * len(call.values), _Given(list(call.values), call.key, call.outputs)
    linked = [type(source) is tuple and source[0] in numbers for source in call.sources]
    pairs = list(zip(call.sources, linked, strict=True))
    links = tuple((numbers[source[0]], source[1]) if is_linked else None for source, is_linked in pairs)
    values = [None if is_linked else value_of(source) for source, is_linked in pairs]
    return links, _Given(values, call.expression.drawn, None)


def _gradients_of(function: Any, wrt: tuple[str, ...]) -> Callable[..., dict[str, jax.Array]]:
    """Return (values, what is drawn from, heads, outputs, residuals) → gradients by name."""
    backward = function.backward_of(wrt)
    if not isinstance(function, Expression):
        return backward
    return lambda values, key, heads, outputs, _: backward(list(values), key, heads, list(outputs), {}, {})[0]


class _TapeProgram:
    """Runs the backward pass of a tape, and the forward pass of the calls that wait.

    is_floating: all that is between the heads and the leaves are floating-point numbers, so that a gradient is sure to
    come. calls: how often it was asked for.
    """

    def __init__(self, rows: Sequence[_Row], heads: Sequence[Any], is_floating: bool):
        self.is_floating, self.calls = is_floating, 0
        self._rows, self._heads = rows, heads
        functions = [getattr(row.function, "functions", None) for row in rows]
        self._accounts = [each.account for each in functions if each is not None and each.account is not None]
        """Of the functions whose first calls these are."""
        quick = bool(self._accounts)
        compiled = any(functions) and not quick
        compiles = lambda kept: jit(self._run, quick=quick, kept=kept)  # noqa: E731
        self.run = jit(self._run) if compiled else Staged(self._run, compiles, self._accounts or None)
        self._with_updates: dict[Any, Callable[..., Any]] = {}
        self._asked: Recent[Any, int] = Recent(64)

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
        asked = self._asked[key] = (self._asked.get(key) or 0) + 1
        if len(self._with_updates) == _UPDATES or (self._with_updates and asked <= _UPDATED_OFTEN):
            return None

        def run(given: Any, kept: Any, given_away: Any) -> Any:
            computed = self._run(*given)
            return computed, update([computed[0][number] for number in numbers], kept, given_away)

        made = jit(run, donate_argnums=2 if donate else ())
        self._with_updates[key] = jitted = lambda given, arrays: made(given, *arrays)
        return jitted

    def _run(
        self, given: Sequence[_Given], head_grads: Sequence[jax.Array | None]
    ) -> tuple[dict[int, jax.Array], list[Sequence[jax.Array] | None]]:
        """Return (the gradients by the numbers of leaves, the outputs of the calls that wait)."""
        calls: list[Any] = [(known.values, known.outputs, None) for known in given]
        for i in reversed(range(len(calls))):  # what was called first comes first
            values, outputs, residuals = calls[i]
            if outputs is None:
                linked = zip(values, self._rows[i].links, strict=True)
                values = [value if at is None else calls[at[0]][1][at[1]] for value, at in linked]
                outputs, residuals = self._rows[i].function.forward(values, given[i].drawn)
            calls[i] = values, outputs, residuals
        gradients = self._gradients(calls, [known.drawn for known in given], head_grads)
        return gradients, [
            None if known.outputs else outputs for known, (_, outputs, _) in zip(given, calls, strict=True)
        ]

    def _gradients(
        self, calls: Sequence[tuple[Any, Any, Any]], drawn: Sequence[Any], head_grads: Sequence[jax.Array | None]
    ) -> dict[int, jax.Array]:
        """Return the gradients by the numbers of leaves. calls: of each the values, the outputs and the residuals."""
        wanted = self._wanted([values for values, _, _ in calls])
        sums: dict[Any, jax.Array] = {}

        def add(entry: Any, gradient: jax.Array) -> None:
            sums[entry] = sums[entry] + gradient if entry in sums else gradient

        for (call, output), gradient in zip(self._heads, head_grads, strict=True):
            add((call, output), jnp.ones_like(calls[call][1][output]) if gradient is None else gradient)
        for i, (values, outputs, residuals) in enumerate(calls):
            partial = [sums.pop((i, k), None) for k in range(len(outputs))]
            if not wanted[i] or all(gradient is None for gradient in partial):
                continue
            heads = [jnp.zeros_like(o) if g is None else g for o, g in zip(outputs, partial, strict=True)]
            wrt = tuple(name for name, _ in wanted[i])
            gradients = _gradients_of(self._rows[i].function, wrt)(values, drawn[i], heads, outputs, residuals)
            for name, entry in wanted[i]:
                add(entry, gradients[name])
        return {number: gradient for (call, number), gradient in sums.items() if call < 0}

    def _wanted(self, values: Sequence[Sequence[jax.Array]]) -> list[list[tuple[str, Place]]]:
        """Return the inputs of each call that gradients go through, by name. values: of the inputs."""
        wanted: list[list[tuple[str, Place]]] = [[] for _ in self._rows]
        for i in reversed(range(len(wanted))):
            row = self._rows[i]
            for name, entry, value in zip(row.function.names, row.entries, values[i], strict=True):
                if entry is None or not (entry[0] < 0 or wanted[entry[0]]):
                    continue
                if jnp.issubdtype(value.dtype, jnp.number):
                    wanted[i].append((name, entry))
        return wanted
