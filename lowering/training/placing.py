"""A training state and its batches are placed by a `Placement`, and stay there inside a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import with_sharding_constraint as constrained

from lowering.jax_casts import require_held
from lowering.sharding.explicit_axes import on_auto_axes
from lowering.sharding.placement import Placement, place
from lowering.training.state import TrainState
from symjax_nnvm.errors import TrainingError

Arrays = dict[str, jax.Array]


# -- states ------------------------------------------------------------------------------------------------------------


def put_whole(placement: Placement, array: jax.Array) -> jax.Array:
    """Return an array, or a PRNG key, that every device has."""
    if placement.mesh is None:
        return array
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        data = place(jax.random.key_data(array), placement.sharding())
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(array))
    return place(array, placement.sharding())


def first_value(value: Any, dtype: Any, where: Any) -> jax.Array:
    """Return a value of a state, in memory of its own, since a step consumes it.

    Where the dtype is the value's own there is nothing to compute: `jnp.array` compiles a program for each shape.
    """
    value = on_auto_axes(require_held(value))
    if getattr(value, "dtype", None) != dtype or jax.dtypes.canonicalize_dtype(dtype) != dtype:
        copied = jnp.array(value, dtype, copy=True)
    else:
        copied = value.copy() if isinstance(value, jax.Array) else jax.device_put(np.asarray(value), may_alias=False)
    return copied if where is None else place(copied, where)


def first_optimizer_state(placement: Placement, init: Any, params: Arrays) -> Any:
    """Return the optimiser's first state; each device makes only the part that it holds."""
    if placement.mesh is None:
        return init(params)
    shardings = _slot_shardings(placement, jax.eval_shape(init, params), params)
    return jax.jit(init, out_shardings=shardings)(params)


def on_host(placement: Placement, arrays: Mapping[str, jax.Array]) -> dict[str, np.ndarray]:
    """Return whole arrays, one after the other; with several processes only the first gets values, but every process
    must call this."""
    if placement.processes == 1:
        return jax.device_get(dict(arrays))
    gather = jax.jit(lambda array: array, out_shardings=placement.sharding())
    whole = ((name, gather(array)) for name, array in arrays.items())
    return {name: np.asarray(array) for name, array in whole if jax.process_index() == 0}


# -- batches -----------------------------------------------------------------------------------------------------------


def put_batch(placement: Placement, batch: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
    """Return a batch on the devices. With several processes each gives its rows; whole: each gives the whole batch.

    An array without axes is reported later, by `Inputs.prepare`.
    """
    if placement.mesh is None:
        return dict(batch)
    return {n: _put_rows(placement, n, value, whole) if np.shape(value) else value for n, value in batch.items()}


def _put_rows(placement: Placement, name: str, value: Any, whole: bool) -> jax.Array:
    if whole or placement.processes == 1 or (isinstance(value, jax.Array) and not value.is_fully_addressable):
        return place(value, placement.batch(value.shape[0]))
    split = placement.sharding(placement.data_axis)
    try:
        return jax.make_array_from_process_local_data(split, np.asarray(value))
    except ValueError as error:
        raise TrainingError(
            "The rows of this process cannot be divided among its devices",
            input=name,
            expected=f"as many in each process, together a multiple of {placement.parts}",
            got=f"{value.shape[0]} rows in process {jax.process_index()}",
            fix="Use lowering.Batches without shard: each process then takes its own rows of the whole batch.",
        ) from error


def gives_whole(data: Any) -> bool:
    """Return whether each process gets whole batches of this data: those of `Batches` without shard."""
    return getattr(data, "shard", data) is None


# -- inside a step -----------------------------------------------------------------------------------------------------


def split_batch(placement: Placement, arrays: Mapping[str, jax.Array], axis: int = 0) -> Arrays:
    """Return traced arrays, split over the data axes along one of theirs that can be."""
    if placement.mesh is None:
        return dict(arrays)
    specs = {name: placement.batch(array.shape[axis]).spec for name, array in arrays.items()}
    return {n: constrained(array, placement.sharding(*(None,) * axis, *specs[n])) for n, array in arrays.items()}


def split_for_update(placement: Placement, params: Arrays, grads: Arrays) -> tuple[Arrays, Arrays]:
    """Return parameters and gradients split as the optimiser's arrays are, so that each device updates its own part."""
    if placement.mesh is None:
        return params, grads
    shardings = placement.optimizer_slots(_shapes(params))
    return (
        {name: constrained(value, shardings[name]) for name, value in params.items()},
        {name: constrained(value, shardings[name]) for name, value in grads.items()},
    )


def settled(placement: Placement, state: TrainState) -> TrainState:
    """Return the state that a step ends with, split as the one was that it began with."""
    if placement.mesh is None:
        return state
    arguments = placement.parameters(_shapes({**state.params, **state.frozen}))
    states = placement.states(_shapes(state.aux))
    return TrainState(
        params={name: constrained(value, arguments[name]) for name, value in state.params.items()},
        frozen={name: constrained(value, arguments[name]) for name, value in state.frozen.items()},
        aux={name: constrained(value, states[name]) for name, value in state.aux.items()},
        opt_state=jax.tree.map(constrained, state.opt_state, _slot_shardings(placement, state.opt_state, state.params)),
        key=placement.whole(state.key),
        step=placement.whole(state.step),
    )


def _slot_shardings(placement: Placement, opt_state: Any, params: Mapping[str, Any]) -> Any:
    """Return the shardings of the arrays of an optimiser's state: as the parameter on whose path they are, along each
    axis that they have as it does."""
    shapes = _shapes(params)
    slots = placement.optimizer_slots(shapes)

    def slot_sharding(path: Any, leaf: Any) -> Any:
        names = (key.key for key in path if isinstance(key, jax.tree_util.DictKey))
        name = next((name for name in names if name in shapes), None)
        if name is None or len(leaf.shape) != len(shapes[name]):
            return placement.sharding()
        axes = enumerate(slots[name].spec)
        return placement.sharding(*(axis if leaf.shape[i] == shapes[name][i] else None for i, axis in axes))

    return jax.tree_util.tree_map_with_path(slot_sharding, opt_state)


def _shapes(arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}
