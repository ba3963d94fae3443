"""Backward passes of short tapes, as one program each: a loop that trains a small network records the same calls in
every step, and calling one program costs less than calling one for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from lowering.mx.eager import Expression
from lowering.mx.recording import Call, Leaf
from symjax_nnvm.recent import Recent

_LONGEST = 32
"""Calls of a tape that is short: the calls of longer ones are worth their time, and one program of all is not."""

_PATIENCE = 2
"""So many times a tape is differentiated call by call before its program is compiled."""

_seen: Recent[Any, _Backward] = Recent(256)


def short_tape_gradients(
    calls: Sequence[Call], heads: Sequence[Any], given: Sequence[jax.Array | None], request: Callable[[Leaf], str]
) -> dict[Leaf, jax.Array] | None:
    """The gradient of each leaf that is not requested as "null"; None where it is to be computed call by call.

    calls: the last first. heads: entries on the tape. given: their gradients, None for ones.
    """
    if len(calls) > _LONGEST or jax.default_backend() != "cpu" or jax.device_count() > 1:
        return None
    numbers: dict[Any, int] = {call: i for i, call in enumerate(calls)}
    leaves: list[Leaf] = []
    rows: list[Any] = []

    def place(entry: Any) -> tuple[int, int] | None:
        """Return (number of the call, of its output), or (-1, number of the leaf)."""
        if not isinstance(entry, Leaf):
            return None if entry is None else (numbers[entry[0]], entry[1])
        if entry not in numbers:
            numbers[entry] = len(leaves) if request(entry) != "null" else -1
            if numbers[entry] >= 0:
                leaves.append(entry)
        return None if numbers[entry] < 0 else (-1, numbers[entry])

    for call in calls:
        if type(call.expression) is not Expression or call.expression.calls_python or call.states:
            return None
        shapes = [(value.shape, value.dtype) for value in call.values]
        rows.append((id(call.expression), call.key is None, *map(place, call.entries), *shapes))
    places = [place(head) for head in heads]
    if any(each is None or each[0] < 0 for each in places):
        return None
    key = (*rows, *places, *(gradient is None for gradient in given))
    backward = _seen.get(key)
    if backward is None:
        backward = _seen[key] = _Backward(calls, [[place(entry) for entry in call.entries] for call in calls], places)
    backward.calls += 1
    if backward.calls <= _PATIENCE:
        return None
    arrays = [(call.values, call.key, call.outputs) for call in calls]
    gradients = backward.run(arrays, given)
    return {leaves[number]: gradient for number, gradient in gradients.items()}


class _Backward:
    """Represents the backward pass of a tape. calls: how often the tape was differentiated."""

    def __init__(self, calls: Sequence[Call], entries: Sequence[Sequence[Any]], heads: Sequence[Any]):
        self.calls = 0
        self.run = jax.jit(self._run)
        self._expressions = [call.expression for call in calls]
        self._heads = heads
        self._wanted: list[list[tuple[str, Any]]] = [[] for _ in calls]
        for i in reversed(range(len(calls))):  # what was called first comes first
            for name, entry, value in zip(calls[i].expression.names, entries[i], calls[i].values, strict=True):
                reaches = entry is not None and (entry[0] < 0 or self._wanted[entry[0]])
                if reaches and jnp.issubdtype(value.dtype, jnp.number):
                    self._wanted[i].append((name, entry))

    def _run(self, arrays: Sequence[Any], given: Sequence[jax.Array | None]) -> dict[int, jax.Array]:
        """Return the gradients by the numbers of leaves. arrays: of each call the values, the key and the outputs."""
        sums: dict[Any, jax.Array] = {}

        def add(entry: Any, gradient: jax.Array) -> None:
            sums[entry] = sums[entry] + gradient if entry in sums else gradient

        for (call, output), gradient in zip(self._heads, given, strict=True):
            add((call, output), jnp.ones_like(arrays[call][2][output]) if gradient is None else gradient)
        for i, (expression, (values, key, outputs)) in enumerate(zip(self._expressions, arrays, strict=True)):
            partial = [sums.pop((i, k), None) for k in range(len(outputs))]
            wanted = self._wanted[i]
            if not wanted or all(gradient is None for gradient in partial):
                continue
            heads = [jnp.zeros_like(o) if g is None else g for o, g in zip(outputs, partial, strict=True)]
            wrt = tuple(name for name, _ in wanted)
            gradients, _ = expression.backward_of(wrt)(list(values), key, heads, list(outputs), {}, {})
            for name, entry in wanted:
                add(entry, gradients[name])
        return {number: gradient for (call, number), gradient in sums.items() if call < 0}
