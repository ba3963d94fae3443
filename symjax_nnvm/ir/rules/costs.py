"""The cost of an operator: the arithmetic of a call, and the memory that it takes beside inputs and outputs.

Costs are in elements and operations. A *MAC* is one multiplication with the addition that follows it, as matrix
products and convolutions do them; other operations (bias, comparisons, square roots, each elementary function) count
one each. 1 MAC = 2 FLOPs. Operators that move or make data without arithmetic cost 0.

Costs have a low priority, so that another package can set FFlops or FWorkspace again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Literal, NamedTuple

Sizes = Sequence[tuple[int, ...]]
"""Known shapes, of inputs or of outputs."""


class Flops(NamedTuple):
    """Holds arithmetic of one call: multiply-adds, and other floating-point operations."""

    macs: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """Return floating-point operations: two for each MAC."""
        return 2 * self.macs + self.other


FlopsRule = Callable[[Any, Sizes, Sizes], Flops]
"""(parameters, input shapes, output shapes) → arithmetic of one call at inference."""

WorkspaceRule = Callable[[Any, Sizes, Sizes], int]
"""(parameters, input shapes, output shapes) → elements held beyond those, as the lowering rule works: windows are cut
out of a padded copy, samples are gathered before they are added up. XLA may need less, where it fuses."""


MOVES: dict[str, Any] = {"flops": 0, "precision": "either"}
"""Arguments of `register_op` for an operator that moves elements, without arithmetic."""

ARRANGES: dict[str, Any] = {**MOVES, "same_values": True}
"""Arguments of `register_op` for an operator whose result holds values of its first input and no others."""


def per_output(count: int) -> FlopsRule:
    """Return a cost of `number` operations for each element of the first output."""
    return lambda p, ins, outs: Flops(0, count * prod(outs[0]))


def per_input(count: int) -> FlopsRule:
    """Return a cost of `number` operations for each element of the first input."""
    return lambda p, ins, outs: Flops(0, count * prod(ins[0]))


def as_much_as(which: Literal["input", "output"], count: int) -> WorkspaceRule:
    """Return a workspace of `number` arrays like the first input or output."""
    return lambda p, ins, outs: count * prod((ins if which == "input" else outs)[0])


def extended(shape: tuple[int, ...], axes: Sequence[int], margins: Sequence[int]) -> int:
    """Return the number of elements of an array whose axes are longer by margins."""
    sizes = list(shape)
    for axis, margin in zip(axes, margins, strict=True):
        sizes[axis] += max(margin, 0)
    return prod(sizes)
