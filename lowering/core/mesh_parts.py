"""Split a rule's work over a mesh: run it on each device's part of the samples, or constrain an array's sharding.

On a CPU some rules go through a batch sample by sample, so that their results stay in the caches. XLA's partitioner
cannot split such a loop: it gathers the whole batch on every device, and every device does the whole work. These rules
name their inputs that have samples along the first axis (`by_part=` of `lowers`), and this module splits them by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from lowering.core.rules import ByPart
from symjax_nnvm.pipeline import Options

__all__ = ["count_parts", "laid_out", "on_each_part"]


def laid_out(data: jax.Array, mesh: Any, *axes: str | tuple[str, ...] | None) -> jax.Array:
    """Return the data with axis i split over axes[i] of the mesh and its other axes whole; without a mesh return it
    unchanged. Where axes are manual, inside `jax.shard_map`, the caller has split the data over them already."""
    if mesh is None:
        return data
    around = jax.sharding.get_abstract_mesh()
    actual = mesh if around.empty else around
    manual = {name for name, kind in zip(actual.axis_names, actual.axis_types, strict=True) if kind == AxisType.Manual}
    groups = [(axis,) if isinstance(axis, str) else axis or () for axis in axes]
    spec = PartitionSpec(*(tuple(axis for axis in group if axis not in manual) or None for group in groups))
    if manual and not any(spec):
        return data
    return jax.lax.with_sharding_constraint(data, NamedSharding(mesh, spec) if around.empty else spec)


def count_parts(by: ByPart, options: Options, platform: str, inputs: Sequence[Any]) -> int:
    """Return into how many parts `on_each_part` splits samples.

    One, where there is no mesh, on other platforms than CPUs, inside `jax.shard_map` over the axes of data, and of
    samples that cannot be split evenly.
    """
    if options.mesh is None or not options.data_axis or platform != "cpu":
        return 1
    mesh, axes = _split_over(options)
    count = prod(mesh.shape[axis] for axis in axes)
    return 1 if any(inputs[i].shape[0] % count for i in by.samples) else count


def _split_over(options: Options) -> tuple[Any, tuple[str, ...]]:
    """Return the mesh, and those of the axes of data that XLA splits over by itself."""
    around = jax.sharding.get_abstract_mesh()
    mesh: Any = options.mesh if around.empty else around
    automatic = {name for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True) if kind == AxisType.Auto}
    return mesh, tuple(axis for axis in options.data_axis if axis in automatic)


def on_each_part(
    function: Callable[..., Any], by: ByPart, options: Options, platform: str, inputs: Sequence[Any]
) -> Any:
    """Return `function(*inputs)`, by each device on its part along the axes `options.data_axis` of the mesh.

    Where there is one shard, the function runs without `shard_map`; see `count_parts`.
    """
    count = count_parts(by, options, platform, inputs)
    if count == 1:
        return function(*inputs)
    mesh, axes = _split_over(options)

    def run_on_shard(*shards: Any) -> Any:
        outputs = function(*shards)
        return outputs[None] if by.summed else outputs

    split, whole = PartitionSpec(axes), PartitionSpec()
    out = jax.shard_map(
        run_on_shard,
        mesh=mesh,
        in_specs=tuple(split if i in by.samples else whole for i in range(len(inputs))),
        out_specs=split,
        axis_names=set(axes),
        check_vma=False,  # nothing is replicated that is not split by hand
    )(*inputs)
    return jnp.sum(out, 0) if by.summed else out
