"""Sizes that are left open: no numbers, but symbols of the engine, which compare and add up as numbers do.

Where the engine cannot decide a comparison of them it raises an exception of its own, which it registers once here.
"""

from __future__ import annotations

from typing import Any

from symjax_nnvm.errors import OpenSizeError

__all__ = ["are_undecided", "decide_by", "is_at_most", "is_multiple", "is_open", "needed"]

_undecided: list[type[Exception]] = []


def decide_by(kind: type[Exception]) -> None:
    """Register the exception that the engine raises where it cannot decide a comparison."""
    if kind not in _undecided:
        _undecided.append(kind)


def are_undecided() -> tuple[type[Exception], ...]:
    """Return the exceptions that comparisons of open sizes raise, for an `except`."""
    return tuple(_undecided)


def is_open(size: Any) -> bool:
    """Return whether a size is a symbol: neither a number nor unknown."""
    return size is not None and not isinstance(size, int)


def is_at_most(small: Any, large: Any) -> bool:
    """Return whether small ≤ large. Raises OpenSizeError, which names the promise to make, where this is open."""
    try:
        return bool(small <= large)
    except are_undecided() as error:
        raise needed(f"{large} >= {small}") from error


def is_multiple(size: Any, divisor: int) -> bool:
    """Return whether a size is a multiple of a number. Raises OpenSizeError if an open size does not say."""
    remainder = size % divisor
    if is_open(remainder):
        raise needed(f"mod({size}, {divisor}) == 0")
    return remainder == 0


def needed(condition: str, **where: Any) -> OpenSizeError:
    """Return the error of an operator whose sizes must fulfil a condition; where: the operator and its node."""
    return OpenSizeError(
        f"The operator needs {condition}, but the sizes were left open",
        condition,
        fix=f"State it where you make the sizes: jax.export.symbolic_shape(..., constraints=[{condition!r}]).",
        **where,
    )
