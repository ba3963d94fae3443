"""The training step as one pure function: MXGradient's gradients, clipped, and one update of every parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from lowering.lanes.lanes import added
from lowering.norms import norm
from lowering.optim.optimizers import Optimizer
from lowering.sharding.placement import DEFAULT_PLACEMENT, Placement
from lowering.training.accumulate import Accumulation, ProgramFor
from lowering.training.device_statistics import run_apart
from lowering.training.inputs import Batch, Inputs
from lowering.training.placing import settled, split_batch, split_for_update
from lowering.training.state import TrainState
from symjax_nnvm.errors import InferenceError

StepFunction = Callable[[TrainState, Batch], tuple[TrainState, list[jax.Array]]]

Results = tuple[list[jax.Array], dict[str, jax.Array], dict[str, jax.Array]]
"""Outputs, gradients by name, and new auxiliary states by name."""

BatchStatistics = Literal["global", "device"]

_OPTIMIZER_KEY = 0x6F7074  # "opt": apart from the keys of micro-batches, which are small numbers


class TrainingStep(NamedTuple):
    """The two parts of a training step, not jitted.

    gradients: (state, batch) → (outputs, gradients, auxiliary states) of the whole batch. update: (rows of the batch,
    state, those results) → (next state, outputs).
    """

    gradients: Callable[[TrainState, Batch], Results]
    update: Callable[[int, TrainState, Results], tuple[TrainState, list[jax.Array]]]
    inputs: Inputs

    def step(self, state: TrainState, batch: Batch) -> tuple[TrainState, list[jax.Array]]:
        """Return the next state and the outputs."""
        return self.update_by_lanes(self.gradients(state, batch), state, batch)

    def update_by_lanes(self, results: Any, state: TrainState, batch: Batch) -> tuple[TrainState, list[jax.Array]]:
        """Return the next state and the outputs, by the results of `gradients`, or what `Lanes` make of these."""
        return self.update(batch[self.inputs.data[0]].shape[0], state, added(results))


def make_step(
    program_for: ProgramFor,
    optimizer: Optimizer,
    inputs: Inputs,
    *,
    accumulation: Accumulation,
    clip_global_norm: float | None,
    placement: Placement = DEFAULT_PLACEMENT,
    batch_statistics: BatchStatistics = "global",
    fixed: Mapping[str, float] = MappingProxyType({}),
) -> TrainingStep:
    """Return a training step.

    Gradients are multiplied with the optimiser's `rescale_grad`, by default 1 / batch size, as MXNet's Module does.
    clip_global_norm: an upper limit of the norm of all rescaled gradients together. placement: the placement of the
    state, which stays. batch_statistics: of the whole batch, or of each device's part. fixed: parameters that the
    network takes to be a number: each update begins with it, as in MXNet.
    """
    run = partial(accumulation.run, placement=placement)
    if placement.mesh is not None and batch_statistics == "device":
        run = partial(run_apart, placement, accumulation)

    def gradients(state: TrainState, batch: Batch) -> Results:
        arrays = split_batch(placement, inputs.prepare(batch))
        key = jax.random.fold_in(state.key, state.step)
        try:
            return run(program_for, state.params | state.frozen, arrays, state.aux, key)
        except InferenceError as error:
            listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise InferenceError(f"{error} The batch that does not fit: {listed}.") from error

    def update(rows: int, state: TrainState, results: Results) -> tuple[TrainState, list[jax.Array]]:
        outputs, grads, aux = results
        rescale: Any = 1 / rows if optimizer.rescale_grad is None else optimizer.rescale_grad
        if clip_global_norm is not None:
            length = norm(*grads.values()) * rescale
            rescale = rescale * jnp.minimum(1.0, clip_global_norm / (length + 1e-8))
        key = jax.random.fold_in(jax.random.fold_in(state.key, state.step), _OPTIMIZER_KEY)
        numbers = {name: jnp.full_like(state.params[name], number) for name, number in fixed.items()}
        params, grads = split_for_update(placement, state.params | numbers, grads)
        params, opt_state = optimizer.update(params, grads, state.opt_state, state.step, key, rescale)
        state = TrainState(params, state.frozen, aux, opt_state, state.key, state.step + 1)
        return settled(placement, state), outputs

    return TrainingStep(gradients, update, inputs)
