"""`TrainState`: everything that training changes, as one pytree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax


def described(array: Any) -> str:
    """Return `float32[4,3]`: an array in a text that is read by people."""
    return f"{array.dtype.name if hasattr(array.dtype, 'name') else array.dtype}{list(array.shape)}".replace(" ", "")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """The state of a training run: a pytree of jax.Arrays, in dicts by name.

    `Trainer.step_fn` donates the state that it gets: its arrays cannot be used again.

    Attributes:
        params: the arguments that are trained.
        frozen: other arguments that are neither data nor labels.
        aux: auxiliary states.
        opt_state: the optimiser's arrays, in the optimiser's own form.
        key: the PRNG key of the run; step i folds i into it.
        step: the number of steps taken, int32, shape ().
    """

    params: dict[str, jax.Array]
    frozen: dict[str, jax.Array]
    aux: dict[str, jax.Array]
    opt_state: Any
    key: jax.Array
    step: jax.Array

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(getattr(self, group))} {group}" for group in ("params", "frozen", "aux"))
        return f"<TrainState: {counts}; state.params[name] and so on are the arrays>"
