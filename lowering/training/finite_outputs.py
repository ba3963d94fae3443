"""Whether predictions are finite: each batch's outputs are checked on the device, and one warning comes at the end."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from symjax_nnvm.errors import NonFiniteWarning

_IN_QUEUE = 2
"""Batches that the device may still be at work on when an earlier one is looked at."""


def rows_not_finite(outputs: Sequence[jax.Array]) -> jax.Array:
    """Return (outputs, 2) int32: the first row with a number that is not finite, and the count of such rows."""

    def first_bad_row(output: jax.Array) -> jax.Array:
        if not jnp.issubdtype(output.dtype, jnp.floating) or not output.size:
            return jnp.zeros(2, jnp.int32)
        rows = output.reshape(output.shape[0] if output.ndim else 1, -1)
        bad = ~jnp.isfinite(rows).all(axis=1)
        return jnp.stack([jnp.argmax(bad), bad.sum()]).astype(jnp.int32)

    return jnp.stack([first_bad_row(output) for output in outputs])


class FiniteWatch:
    """Looks at what `rows_not_finite` found in batches, two batches late, and keeps the first that it concerns."""

    def __init__(self, output_names: Sequence[str]):
        self._names = list(output_names)
        self._waiting: deque[tuple[Any, int, jax.Array]] = deque()
        self._rows = 0
        self._bad = np.zeros(len(self._names), np.int64)
        self._first: tuple[Any, int, int] | None = None  # batch, output, row among all

    def add(self, batch: Any, rows: int, finite: jax.Array) -> None:
        """Add a batch, its number of rows, and the check of its outputs."""
        self._waiting.append((batch, rows, finite))
        if len(self._waiting) > _IN_QUEUE:
            self._look()

    def _look(self) -> None:
        batch, rows, finite = self._waiting.popleft()
        places = np.asarray(finite)
        if self._first is None and places[:, 1].any():
            output = int(places[:, 1].argmax())
            self._first = (batch, output, self._rows + int(places[output, 0]))
        self._bad += places[:, 1]
        self._rows += rows

    def finish(self, what: str, diagnose: Callable[[Any], Any]) -> None:
        """Warn about outputs that are not finite, with the node where it begins: `diagnose` of the first such batch."""
        while self._waiting:
            self._look()
        if self._first is None:
            return
        batch, output, row = self._first
        count = int(self._bad[output])
        warnings.warn(
            f"{what}: output {self._names[output]!r} is NaN or infinite for sample {row}"
            f"{f', and for {count - 1} more' if count > 1 else ''}, of {self._rows} samples.\n{diagnose(batch)}",
            NonFiniteWarning,
            stacklevel=5,
        )
