"""Operators that make each sample of their results, along the first axis, of the same sample of their data alone.

Their cards declare it (`samples=` of `register_op`). A network of such operators may run a few samples at a time, so
that the arrays between its operators stay in the caches: `lowering/serving/microbatch.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

Sizes = Sequence[tuple[int, ...]]

SamplesRule = Callable[[Any, Sizes, Sizes], bool]
"""(parameters, input shapes, output shapes) → whether each sample is by itself, where inputs that are not data have no
axis of samples."""

Samples = Literal["each"] | SamplesRule


def rows(p: Any, ins: Sizes, outs: Sizes) -> bool:
    """The rule of operators that keep the order of elements: samples stay apart if there are as many as before."""
    return ins[0][:1] == outs[0][:1]


def across(name: str) -> SamplesRule:
    """Return the rule of operators that mix elements along the axis that a parameter names: any axis but the first."""

    def rule(p: Any, ins: Sizes, outs: Sizes) -> bool:
        axis = getattr(p, name)
        return axis is not None and axis % len(ins[0]) != 0

    return rule
