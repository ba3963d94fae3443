"""Batch statistics of only each device's part, as in MXNet on several devices: each device runs a program of its
own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jax.sharding import PartitionSpec

from lowering.sharding.placement import Placement
from lowering.training.accumulate import Accumulation, ProgramFor
from symjax_nnvm.errors import TrainingError

Arrays = Mapping[str, jax.Array]


def run_apart(
    placement: Placement,
    accumulation: Accumulation,
    program_for: ProgramFor,
    constants: Arrays,
    batch: Arrays,
    aux: Arrays,
    key: jax.Array,
) -> tuple[list[jax.Array], dict[str, jax.Array], dict[str, jax.Array]]:
    """Run `Accumulation.run` on the shard of a batch that each device has.

    Gradients are added or averaged as those of micro-batches; auxiliary states are the devices' mean, as MXNet's Module
    saves them. Raises TrainingError for a batch that cannot be split evenly.
    """
    sizes = {name: array.shape[0] for name, array in batch.items()}
    if any(size % placement.parts for size in sizes.values()):
        expected = f"arrays whose length is a multiple of {placement.parts}"
        fix = "Use Batches(..., last='drop'), which leaves out the shorter last batch."
        raise TrainingError(
            "The batch cannot be split for batch_statistics='device'", expected=expected, got=sizes, fix=fix
        )
    axes = placement.data_axis

    def run_on_shard(constants: Arrays, batch: Arrays, aux: Arrays, key: jax.Array) -> Any:
        arrays = {**constants, **batch}
        rows = next(iter(batch.values())).shape[0]
        reduction = accumulation.reduction_of(program_for(arrays), arrays, rows)
        summed = jax.lax.pmean if reduction == "mean" else jax.lax.psum
        key = jax.random.fold_in(key, jax.lax.axis_index(axes))
        outputs, grads, new_aux = accumulation.run(program_for, constants, batch, aux, key)
        averaged = {name: jax.lax.pmean(value, axes).astype(value.dtype) for name, value in new_aux.items()}
        return [out if out.ndim else out[None] for out in outputs], summed(grads, axes), averaged

    whole, split = PartitionSpec(), PartitionSpec(axes)
    mapped = jax.shard_map(
        run_on_shard,
        mesh=placement.mesh,
        in_specs=(whole, split, whole, whole),
        out_specs=(split, whole, whole),
        axis_names=set(axes),
        check_vma=False,  # what is replicated is known from the sums above
    )
    return mapped(dict(constants), dict(batch), dict(aux), key)
