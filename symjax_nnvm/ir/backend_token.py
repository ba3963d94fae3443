"""`BackendToken`: the token that names, for options, stages and operator attributes, what computes convolutions."""

from __future__ import annotations

from typing import Protocol

__all__ = ["BackendToken"]


class BackendToken(Protocol):
    """What computes convolutions and dense layers where a graph runs. The package that runs graphs makes one, and sets
    the operator attributes that read it. A hashable value. Two that are equal decide alike."""

    @property
    def fuses(self) -> bool:
        """Return whether it does the sum and the activation after a product in the pass that multiplies."""
        ...
