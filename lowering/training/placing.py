"""Where a training state and its batches lie: on one device, or on a mesh as `lowering.sharding` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lowering.sharding import Placement, on_auto_axes, place
from lowering.training.state import TrainState
from symjax_nnvm.errors import TrainingError

Arrays = dict[str, jax.Array]


@dataclass(frozen=True)
class Placing:
    """Puts states and batches where they lie, and keeps them there inside a step. placement: None for one device."""

    placement: Placement | None

    @property
    def processes(self) -> int:
        """How many processes hold the state."""
        return 1 if self.placement is None else self.placement.processes

    def first_values(self, shapes: Mapping[str, Any], states: Mapping[str, Any]) -> dict[str, Any]:
        """Where each parameter, and each auxiliary state, is to lie; shapes by name. Empty on one device."""
        if self.placement is None:
            return {}
        return self.placement.parameters(shapes) | self.placement.states(states)

    def whole(self, array: jax.Array) -> jax.Array:
        """An array that every device has."""
        return array if self.placement is None else _placed(array, self.placement.of())

    def optimizer_state(self, init: Any, params: Arrays) -> Any:
        """The optimiser's first state, of which no device makes more than it holds."""
        if self.placement is None:
            return init(params)
        where = self._slots(jax.eval_shape(init, params), params)
        return jax.jit(init, out_shardings=where)(params)

    def on_host(self, arrays: Mapping[str, jax.Array]) -> dict[str, np.ndarray]:
        """Whole arrays, one after the other; with several processes in the first of them alone, and no values in the
        others, which must ask, too."""
        if self.placement is None or self.processes == 1:
            return jax.device_get(dict(arrays))
        gather = jax.jit(lambda array: array, out_shardings=self.placement.of())
        whole = ((name, gather(array)) for name, array in arrays.items())
        return {name: np.asarray(array) for name, array in whole if jax.process_index() == 0}

    # -- batches -------------------------------------------------------------------------------------------------------

    def batch(self, batch: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
        """A batch on the devices. With several processes each gives its rows; whole: each gives the whole batch.

        An array without axes is left for `Inputs.prepare` to tell of.
        """
        if self.placement is None:
            return dict(batch)
        return {name: self._rows(name, value, whole) if np.shape(value) else value for name, value in batch.items()}

    def _rows(self, name: str, value: Any, whole: bool) -> jax.Array:
        assert self.placement is not None
        if whole or self.processes == 1 or (isinstance(value, jax.Array) and not value.is_fully_addressable):
            return place(value, self.placement.batch(value.shape[0]))
        split = self.placement.of(self.placement.data_axis)
        try:
            return jax.make_array_from_process_local_data(split, np.asarray(value))
        except ValueError as error:
            raise TrainingError(
                "The rows of this process cannot be shared out to its devices",
                input=name,
                expected=f"as many in each process, together a multiple of {self.placement.parts}",
                got=f"{value.shape[0]} rows in process {jax.process_index()}",
                fix="Give lowering.Batches without shard: each process then takes its own rows of the whole batch.",
            ) from error

    def largest(self, numbers: jax.Array) -> jax.Array:
        """Of a global array; every process can read it."""
        assert self.placement is not None
        return jax.jit(jnp.max, out_shardings=self.placement.of())(numbers)

    # -- inside a step -------------------------------------------------------------------------------------------------

    def spread(self, arrays: Mapping[str, jax.Array], axis: int = 0) -> Arrays:
        """Traced arrays, split over the data axes along one of theirs that can be."""
        if self.placement is None:
            return dict(arrays)
        where = {name: self.placement.batch(array.shape[axis]).spec for name, array in arrays.items()}
        return {n: self._kept(array, self.placement.of(*(None,) * axis, *where[n])) for n, array in arrays.items()}

    def everywhere(self, tree: Any) -> Any:
        """Traced results that every device has, and so every process can read."""
        return tree if self.placement is None else jax.lax.with_sharding_constraint(tree, self.placement.of())

    def readable(self, tree: Any) -> Any:
        """Traced results that this process is to read: `everywhere` where there are several."""
        return self.everywhere(tree) if self.processes > 1 else tree

    def for_update(self, params: Arrays, grads: Arrays) -> tuple[Arrays, Arrays]:
        """Parameters and gradients split as the optimiser's arrays are, so that each device updates its own part."""
        if self.placement is None:
            return params, grads
        where = self.placement.optimizer_slots(_shapes(params))
        return (
            {name: self._kept(value, where[name]) for name, value in params.items()},
            {name: self._kept(value, where[name]) for name, value in grads.items()},
        )

    def settled(self, state: TrainState) -> TrainState:
        """The state that a step ends with, where the one was that it began with."""
        if self.placement is None:
            return state
        arguments = self.placement.parameters(_shapes({**state.params, **state.frozen}))
        states = self.placement.states(_shapes(state.aux))
        return TrainState(
            params={name: self._kept(value, arguments[name]) for name, value in state.params.items()},
            frozen={name: self._kept(value, arguments[name]) for name, value in state.frozen.items()},
            aux={name: self._kept(value, states[name]) for name, value in state.aux.items()},
            opt_state=jax.tree.map(self._kept, state.opt_state, self._slots(state.opt_state, state.params)),
            key=self.everywhere(state.key),
            step=self.everywhere(state.step),
        )

    def _kept(self, array: jax.Array, where: Any) -> jax.Array:
        return jax.lax.with_sharding_constraint(array, where)

    def _slots(self, opt_state: Any, params: Mapping[str, Any]) -> Any:
        """Where the arrays of an optimiser's state lie: as the parameter on whose path they are, along each axis that
        they have as it does."""
        assert self.placement is not None
        placement, shapes = self.placement, _shapes(params)
        where = placement.optimizer_slots(shapes)

        def of(path: Any, leaf: Any) -> Any:
            names = (key.key for key in path if isinstance(key, jax.tree_util.DictKey))
            name = next((name for name in names if name in shapes), None)
            if name is None or len(leaf.shape) != len(shapes[name]):
                return placement.of()
            axes = enumerate(where[name].spec)
            return placement.of(*(axis if leaf.shape[i] == shapes[name][i] else None for i, axis in axes))

        return jax.tree_util.tree_map_with_path(of, opt_state)


ONE_DEVICE = Placing(None)


def first_value(value: Any, dtype: Any, where: Any) -> jax.Array:
    """A value of a state, in memory that nobody else holds: a step consumes it.

    Where the dtype is the value's own there is nothing to compute: `jnp.array` compiles a program for each shape.
    """
    value = on_auto_axes(value)
    if getattr(value, "dtype", None) != dtype or jax.dtypes.canonicalize_dtype(dtype) != dtype:
        copied = jnp.array(value, dtype, copy=True)
    else:
        copied = value.copy() if isinstance(value, jax.Array) else jax.device_put(np.asarray(value), may_alias=False)
    return copied if where is None else place(copied, where)


def gives_whole(data: Any) -> bool:
    """Whether each process gets whole batches of this data: of `Batches` that is not told its share."""
    return getattr(data, "shard", data) is None


def _placed(array: jax.Array, where: Any) -> jax.Array:
    """`place`, of keys too."""
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(place(jax.random.key_data(array), where), impl=jax.random.key_impl(array))
    return place(array, where)


def _shapes(arrays: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}
