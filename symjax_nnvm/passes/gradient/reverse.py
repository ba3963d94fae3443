"""Reverse mode: the order in which gradients flow through calls, whatever a call and a gradient are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

CallT = TypeVar("CallT")
PlaceT = TypeVar("PlaceT")
GradientT = TypeVar("GradientT")


def backpropagate(
    order: Sequence[CallT],
    inputs_of: Callable[[CallT], Sequence[PlaceT]],
    differentiate: Callable[[CallT], Sequence[GradientT | None] | None],
    receive: Callable[[PlaceT, GradientT], None],
) -> None:
    """Visit users before what they use, and hand each one's gradients to its inputs.

    order: what was called first comes first. inputs_of: where the inputs of a call came from. differentiate: a gradient
    for each input, None for one that has none; None alone where no gradient reaches the call. receive: keeps the sum of
    the gradients that flow to the same place.
    """
    for call in reversed(order):
        gradients = differentiate(call)
        if gradients is not None:
            for place, gradient in zip(inputs_of(call), gradients, strict=True):
                if gradient is not None:
                    receive(place, gradient)
