"""`BackendToken`: the token by which options, stages and operator attributes know what computes convolutions."""

from __future__ import annotations

from typing import Protocol

__all__ = ["BackendToken"]


class BackendToken(Protocol):
    """Tells what computes convolutions and dense layers where a graph runs: the package that runs it makes one, and
    sets the operator attributes that read it. A hashable value. Two that are equal decide alike."""

    @property
    def fuses(self) -> bool:
        """Return whether it does the sum and the activation after a product in the pass that multiplies."""
        ...
