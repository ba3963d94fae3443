"""`TrainState`: everything that training changes, as one pytree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

__all__ = ["TrainState"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrainState:
    """The state of a training run: a pytree of jax.Arrays, in dicts by name.

    params: the arguments that are trained. frozen: other arguments that are neither data nor labels. aux: auxiliary
    states. opt_state: what the optimiser keeps; its form is the optimiser's. key: the PRNG key of the run, which step
    i folds i into. step: the number of steps taken, int32, shape ().

    `Trainer.step_fn` donates the state it is given: its arrays are consumed.
    """

    params: dict[str, jax.Array]
    frozen: dict[str, jax.Array]
    aux: dict[str, jax.Array]
    opt_state: Any
    key: jax.Array
    step: jax.Array
