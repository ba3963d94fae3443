"""`FullLater`: a program whose first calls run it as it was compiled quickly, until compiling it fully pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from lowering.host.quick_calls import excess_of_quick_calls
from lowering.host.staged import Account, price_of_compiling

__all__ = ["FullLater"]

Full = TypeVar("Full")


class FullLater(Generic[Full]):
    """Counts calls of a program that was compiled quickly, as `Staged` does.

    Args:
        jaxpr: the program.
        compiles: compiles it fully, and returns what runs it then.
    """

    def __init__(self, jaxpr: Any, compiles: Callable[[], Full]):
        self.compiles, self._account = compiles, Account(self)
        self._account.price, self._account.excess = price_of_compiling(jaxpr), excess_of_quick_calls(jaxpr)

    def forget(self, _: Any = None) -> None:
        """Do nothing: a Predictor's programs are limited by its `keep`."""

    def counts(self) -> bool:
        """Count a call of the quick program; False where compiling fully is due."""
        if self._account.is_due:
            return False
        self._account.count_quick(self._account.excess)
        return True

    def __str__(self) -> str:
        return f"compiled quickly; {self._account}"
