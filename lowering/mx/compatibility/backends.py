"""MXNet's backends (oneDNN, TensorRT …) do not exist here: `optimize_for` leaves the network as it is."""

from __future__ import annotations

import warnings
from functools import cache

from symjax_nnvm.errors import CallError


class BackendWarning(UserWarning):
    """Warns that a backend has no effect: XLA computes the network as before."""


def ask_for_backend(backend: str) -> None:
    """Warn of a backend, at the first call with its name. Raises CallError for anything that is not a name."""
    if not isinstance(backend, str):
        raise CallError(
            "backend must be a name", got=repr(backend), fix="hybridize() and bind compile by XLA without one."
        )
    _warn_of(backend)


@cache
def _warn_of(backend: str) -> None:
    message = f"There is no backend {backend!r} here: the network stays as it is, and XLA compiles it."
    warnings.warn(message, BackendWarning, stacklevel=4)
