"""The training step as one pure function: MXGradient's gradients, clipped, and one update of every parameter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp

from lowering.optim.layerwise_updates import sum_of_squares
from lowering.optim.optimizers import Optimizer
from lowering.sharding import under_auto_axes
from lowering.training.accumulate import Accumulation, ProgramFor
from lowering.training.device_statistics import run_apart
from lowering.training.inputs import Batch, Inputs
from lowering.training.placing import ONE_DEVICE, Placing
from lowering.training.state import TrainState
from symjax_nnvm.errors import InferenceError

StepFunction = Callable[[TrainState, Batch], tuple[TrainState, list[jax.Array]]]

BatchStatistics = Literal["global", "device"]

_OPTIMIZER_KEY = 0x6F7074  # "opt": apart from the keys of micro-batches, which are small numbers


def make_step(
    program_for: ProgramFor,
    optimizer: Optimizer,
    inputs: Inputs,
    *,
    accumulation: Accumulation,
    clip_global_norm: float | None,
    placing: Placing = ONE_DEVICE,
    batch_statistics: BatchStatistics = "global",
) -> StepFunction:
    """`step(state, batch) -> (state, outputs)`, not jitted.

    Gradients are multiplied with the optimiser's `rescale_grad`, by default 1 / batch size, as MXNet's Module does.
    clip_global_norm: an upper limit of the norm of all rescaled gradients together. placing: the placement of the
    state, which the step keeps. batch_statistics: of the whole batch, or of each device's shard.
    """
    run = partial(accumulation.run, placing=placing)
    if placing.placement is not None and batch_statistics == "device":
        run = partial(run_apart, placing.placement, accumulation)

    def step(state: TrainState, batch: Batch) -> tuple[TrainState, list[jax.Array]]:
        arrays = placing.spread(inputs.prepare(batch))
        key = jax.random.fold_in(state.key, state.step)
        constants = state.params | state.frozen
        try:
            outputs, grads, aux = run(program_for, constants, arrays, state.aux, key)
        except InferenceError as error:
            listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise InferenceError(f"{error} The batch that does not fit: {listed}.") from error
        size = arrays[inputs.data[0]].shape[0]
        rescale: Any = 1 / size if optimizer.rescale_grad is None else optimizer.rescale_grad
        if clip_global_norm is not None:
            norm = jnp.sqrt(sum(sum_of_squares(grad) for grad in grads.values())) * rescale
            rescale = rescale * jnp.minimum(1.0, clip_global_norm / (norm + 1e-8))
        key = jax.random.fold_in(key, _OPTIMIZER_KEY)
        params, grads = placing.for_update(state.params, grads)
        params, opt_state = optimizer.update(params, grads, state.opt_state, state.step, key, rescale)
        return placing.settled(TrainState(params, state.frozen, aux, opt_state, state.key, state.step + 1)), outputs

    return under_auto_axes(step)
