"""An operator's form when channels, the second axis of its data, go last: (n, c, …d) as (n, …d, c).

An operator's attribute FCorrectLayout gives it (`layout=` of `register_op`); the name is NNVM's. An operator that runs
faster in that order under another name has FAlterOpLayout as well; `passes/alter_op_layout.py` reads both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple


class ChannelsLast(NamedTuple):
    """The order of the axes of arrays with channels last. ndim: how many axes they have, at least three."""

    ndim: int

    @property
    def forth(self) -> tuple[int, ...]:
        """Return `transpose`'s axes, from channels first."""
        return (0, *range(2, self.ndim), 1)

    @property
    def back(self) -> tuple[int, ...]:
        """Return `transpose`'s axes, to channels first."""
        return (0, self.ndim - 1, *range(1, self.ndim - 1))

    def axis(self, axis: int) -> int | None:
        """Return the new place of an axis; None when there is no such axis."""
        if not -self.ndim <= axis < self.ndim:
            return None
        first = axis % self.ndim
        return self.ndim - 1 if first == 1 else max(first - 1, 0)


class Corrected(NamedTuple):
    """An operator with channels last. params: the parameters that change. inputs, outputs: how many, the
    first ones, have that order; None: all. The rest keep theirs."""

    params: Mapping[str, Any] = {}
    inputs: int | None = None
    outputs: int | None = None


CorrectLayout = Callable[[Any, ChannelsLast], Corrected | None]
"""(parameters, order) → the operator in that order; None where it needs the order it has."""

Layout = Literal["agnostic"] | CorrectLayout


def AGNOSTIC(p: Any, order: ChannelsLast) -> Corrected | None:  # a value of FCorrectLayout, as others are
    """Any order will do, as long as all inputs have the same."""
    return Corrected()


def along(name: str, inputs: int | None = None, outputs: int | None = None) -> CorrectLayout:
    """Change a parameter that is the number of an axis. inputs, outputs: as in `Corrected`."""

    def rule(p: Any, order: ChannelsLast) -> Corrected | None:
        axis = getattr(p, name)
        now = None if axis is None else order.axis(axis)
        return None if now is None else Corrected({name: now}, inputs, outputs)

    return rule


def windowed(p: Any, order: ChannelsLast) -> Corrected | None:
    """Return the form of an operator whose parameter `layout` is channels first."""
    letters = "DHW"[5 - order.ndim :]
    return Corrected({"layout": f"N{letters}C"}) if p.layout in (None, f"NC{letters}") else None


def reduction(p: Any, order: ChannelsLast) -> Corrected | None:
    """Parameters axis (None or (): all), keepdims and perhaps exclude; all outputs are reduced."""
    axes = [order.axis(axis) for axis in p.axis or range(order.ndim)]
    if None in axes:
        return None
    gone = set(range(order.ndim)) - set(axes) if p.axis and getattr(p, "exclude", False) else set(axes)
    params = {"axis": tuple(axes)} if p.axis else {}
    if p.keepdims:
        return Corrected(params)
    kept_axes = [axis for axis in order.back if axis not in gone]  # the axes that are left, in the order they had
    return Corrected(params, outputs=0) if kept_axes == sorted(kept_axes) else None


def arrangement(p: Any, order: ChannelsLast) -> Corrected | None:
    """Rewrite parameter axes: the whole order of the result's axes, which is what it was."""
    axes = p.axes or tuple(reversed(range(order.ndim)))
    return Corrected({"axes": tuple(order.axis(axis) for axis in axes)}, outputs=0)
