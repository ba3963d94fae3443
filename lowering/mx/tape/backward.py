"""The backward pass of a tape: the calls that heads came from, as rows of numbers, and their gradients.

The same pass is computed call by call, traced as one program, or recorded as calls of the tape: gradients are arrays,
traced arrays, or arrays on the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import jax.numpy as jnp

from lowering.mx.tape.recording import Call, Leaf
from symjax_nnvm.errors import GradientError
from symjax_nnvm.passes.gradient.reverse import backpropagate

T = TypeVar("T")

Place = tuple[int, int]
"""An array on a tape: (number of its call, of the output), or (-1, number of a leaf)."""

NOT_RECORDED = "Call attach_grad() on the inputs, and compute under `with mx.autograd.record():`."

has_gradient = lru_cache(lambda dtype: jnp.issubdtype(dtype, jnp.number))


class Row(NamedTuple):
    """A call of a tape. wrt: the numbers of the inputs that gradients go to. places: where these came from. outputs:
    how many."""

    wrt: tuple[int, ...]
    places: tuple[Place, ...]
    outputs: int


class Tape:
    """The calls that heads came from.

    calls: the first first. leaves: those whose gradients are wanted. rows: of the calls. heads: their places, None for
    a head without a gradient. numbers: of the calls.
    """

    def __init__(self, heads: Sequence[Any], request: Callable[[Leaf], str]):
        """heads: entries. request: the grad_req of a leaf. Raises GradientError for what is not on the tape."""
        self.calls = calls_of(heads)
        if None in heads:
            problem = "Cannot differentiate node because it is not in a computational graph"
            raise GradientError(problem, fix=NOT_RECORDED)
        self.numbers = numbers = {call: number for number, call in enumerate(self.calls)}
        self.leaves: list[Leaf] = []
        self.rows: list[Row] = []
        leaf_places: dict[Leaf, Place | None] = {}

        def place(entry: Any) -> Place | None:
            """Return the place of an entry, None where it gets no gradient."""
            if type(entry) is tuple:
                number = numbers[entry[0]]
                return (number, entry[1]) if self.rows[number].wrt else None
            if entry not in leaf_places:
                leaf_places[entry] = None if request(entry) == "null" else (-1, len(self.leaves))
                if leaf_places[entry]:
                    self.leaves.append(entry)
            return leaf_places[entry]

        for call in self.calls:
            wrt, places = [], []
            for i, entry in enumerate(call.entries):
                at = None if entry is None else place(entry)
                if at is not None and has_gradient(call.values[i].dtype):
                    wrt.append(i)
                    places.append(at)
            self.rows.append(Row(tuple(wrt), tuple(places), len(call.outputs)))
        self.heads = [*map(place, heads)]

    def forget(self) -> None:
        """Free what differentiating the calls needs: they are used up."""
        for call in self.calls:
            call.forget()


def leaf_gradients(
    rows: Sequence[Row],
    heads: Sequence[tuple[Place | None, T]],
    differentiate: Callable[[int, list[T], tuple[int, ...]], Sequence[T]],
    add: Callable[[T, T], T],
    zeros: Callable[[int, int, T], T],
) -> dict[int, T]:
    """Return the gradients of leaves by number.

    heads: with their gradients. differentiate: (number of a call, gradients of its outputs, numbers of inputs) →
    gradients of these inputs. add: the sum of two gradients. zeros: (number of a call, of an output that has no
    gradient, gradient of another one) → its gradient.
    """
    sums: dict[Place, T] = {}

    def receive(place: Place, gradient: T) -> None:
        sums[place] = add(sums[place], gradient) if place in sums else gradient

    def gradients_of(number: int) -> Sequence[T] | None:
        wrt, _, outputs = rows[number]
        partial = [sums.pop((number, i), None) for i in range(outputs)]
        one = next((gradient for gradient in partial if gradient is not None), None)
        if one is None or not wrt:
            return None
        return differentiate(number, [zeros(number, i, one) if g is None else g for i, g in enumerate(partial)], wrt)

    for place, gradient in heads:
        if place is not None:
            receive(place, gradient)
    backpropagate(range(len(rows)), lambda number: rows[number].places, gradients_of, receive)
    return {number: gradient for (call, number), gradient in sums.items() if call < 0}


def calls_of(heads: Sequence[Any]) -> list[Call]:
    """The calls that heads came from, the first first. Raises GradientError for those that are used up."""
    calls: set[Call] = set()
    pending = [*heads]
    while pending:
        entry = pending.pop()
        if isinstance(entry, tuple) and entry[0] not in calls:
            if entry[0].forgotten:
                problem = "Cannot differentiate node because it is not in a computational graph any more"
                raise GradientError(problem, fix="To differentiate it twice, pass retain_graph=True to backward.")
            calls.add(entry[0])
            pending += entry[0].entries
    return sorted(calls, key=lambda call: call.number)
