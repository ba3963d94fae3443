"""A value as one lane has it: the whole, its rows, or its summand of a sum over all lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

_TOGETHER = 1 << 14
"""Elements of a sum that is added up together with one that is needed, before it is needed itself."""


class Unsplit(Exception):
    """The reason why a program is not computed in lanes. node: the part of it that cannot be, by its scope."""

    def __init__(self, reason: str, node: str = ""):
        super().__init__(f"{node}: {reason}" if node else reason)
        self.reason, self.node = reason, node


@dataclass(eq=False, slots=True)
class Piece:
    """Holds an array of a lane. axis: along which the lane has its rows; None: the lane has them all. partial: it is
    this lane's summand."""

    array: Any
    axis: int | None = None
    partial: bool = False


LaneSum = Callable[[Any, list[Any]], tuple[Any, list[Any]]]
"""Adds up arrays over the lanes: number of the lane, arrays → the number, sums. The next sum takes the number from this
one, which orders them."""


@dataclass(eq=False)
class Lane:
    """One of several lanes, while its program is traced. count: the number of lanes. number: the lane's, from 0.
    lane_sum: adds up over the lanes; None: all lanes are taken to have the samples of this one, and never meet. work:
    bytes of the results that are split. sums: how often lanes synchronise."""

    count: int
    number: Any
    lane_sum: LaneSum | None
    work: int = 0
    sums: int = 0
    _pending: list[Piece] = field(default_factory=list)
    _loops: int = 0

    def __post_init__(self):
        self._in_order = self.number

    @property
    def in_loop(self) -> bool:
        """Return whether the body of a loop is traced."""
        return self._loops > 0

    @contextmanager
    def looping(self) -> Iterator[None]:
        """Trace the body of a loop, where lanes do not synchronise."""
        self._loops += 1
        try:
            yield
        finally:
            self._loops -= 1

    def partial(self, array: Any, *of: Piece) -> Piece:
        """Return a piece for a summand that was computed from the pieces `of`, which it replaces among those to be
        added up."""
        piece = Piece(array, partial=True)
        if not self._loops:
            self._pending = [other for other in self._pending if other not in of]
            self._pending.append(piece)
        return piece

    def summed(self, piece: Piece) -> Piece:
        """Return a piece that is not a summand: lanes synchronise and add up, together with small sums that are
        ready."""
        if not piece.partial:
            return piece
        if self.lane_sum is None:
            piece.array, piece.partial = piece.array * self.count, False
            return piece
        if self._loops:
            raise Unsplit("a loop sums over samples in each step")
        small = [other for other in self._pending if other is not piece and other.array.size <= _TOGETHER]
        group = [piece, *small]
        self._in_order, arrays = self.lane_sum(self._in_order, [member.array for member in group])
        for member, array in zip(group, arrays, strict=True):
            member.array, member.partial = array, False
        self._pending = [other for other in self._pending if other.partial]
        self.sums += 1
        return piece

    def of_lanes(self, array: Any) -> Piece:
        """Return each lane's array, stacked along a first axis: a summand."""
        place = jnp.arange(self.count).reshape(-1, *(1,) * array.ndim) == self.number
        return self.partial(jnp.where(place, array, jnp.zeros_like(array)))

    def rows(self, piece: Piece, axis: int) -> Any:
        """Return the rows that the lane has along an axis; of one row, which stands for all, that one."""
        piece = self.summed(piece)
        if piece.axis == axis:
            return piece.array
        if piece.axis is not None:
            raise Unsplit(f"samples along axis {piece.axis} meet samples along axis {axis}")
        if piece.array.shape[axis] == 1:
            return piece.array
        size = piece.array.shape[axis] // self.count
        return jax.lax.dynamic_slice_in_dim(piece.array, self.number * size, size, axis)

    def summand(self, piece: Piece) -> Any:
        """Return a whole value as a summand: the first lane's."""
        if self.lane_sum is None and not piece.partial:
            return piece.array / self.count
        return piece.array if piece.partial else jnp.where(self.number == 0, piece.array, jnp.zeros_like(piece.array))

    def local(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        """Return the shape of a lane's rows."""
        if shape[axis] % self.count:
            raise Unsplit(f"{shape[axis]} rows cannot be divided by {self.count}")
        return (*shape[:axis], shape[axis] // self.count, *shape[axis + 1 :])
